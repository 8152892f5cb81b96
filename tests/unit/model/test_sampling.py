from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from andes_jax.model import sampling
from andes_jax.request import SamplingParams
from tests.unit.model.sampling_reference import edited, kept, log_softmax, run, state_of

VOCAB = 1000  # no multiple of a fold
GREEDY = SamplingParams(max_tokens=9, temperature=0.0)
RANDOM = SamplingParams(max_tokens=9, temperature=1.2)
PROMPT, OUTPUT = [1, 2, 2, 49], [3, 3, 3, 2]
KINDS = [
    GREEDY,
    RANDOM,
    replace(GREEDY, top_logprobs=3),
    replace(RANDOM, top_p=0.8, top_logprobs=20),
    replace(RANDOM, top_k=30, top_p=0.9, min_p=0.01),
    replace(RANDOM, top_k=200),
    replace(GREEDY, presence_penalty=1.0, frequency_penalty=0.5, repetition_penalty=1.2),
    replace(RANDOM, repetition_penalty=1.2, top_p=0.7, logit_bias=((5, 3.0), (999, 4.0)), top_logprobs=0),
    replace(GREEDY, logit_bias=((5, 100.0),), stop_ids=(5,), min_tokens=3),
]


def some_logits(rows: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).gumbel(size=(rows, VOCAB)) * 2).astype(np.float32)


def kinds(rows: int) -> list[SamplingParams]:
    return [replace(KINDS[i % len(KINDS)], seed=i) for i in range(rows)]


def test_each_row_of_a_mixed_batch_gets_what_it_asked_for() -> None:
    logits, rows = some_logits(32), kinds(32)
    drawn = run(logits, state_of(rows, VOCAB, [PROMPT] * 32, [OUTPUT] * 32), generated=len(OUTPUT) - 2)
    raw = log_softmax(logits)
    assert np.all(drawn.finite)
    for i, row in enumerate(rows):
        token = int(drawn.token_ids[i])
        x = edited(logits[i], row, PROMPT, OUTPUT, len(OUTPUT) - 2)
        assert token == x.argmax() if row.temperature == 0 else kept(x, row)[token]
        if row.top_logprobs is not None:
            order = np.argsort(-logits[i], kind="stable")[:20]
            assert drawn.scores.logprob[i] == pytest.approx(raw[i, token], abs=1e-5)
            assert drawn.scores.top_ids[i].tolist() == order.tolist()
            assert drawn.scores.top_logprobs[i] == pytest.approx(raw[i, order], abs=1e-5)
        else:
            assert not np.any(drawn.scores.logprob[i]) and not np.any(drawn.scores.top_ids[i])


def test_a_row_is_the_same_alone_and_anywhere_in_any_batch() -> None:
    logits, rows = some_logits(32), kinds(32)
    texts = [PROMPT] * 32, [OUTPUT] * 32
    positions = np.arange(32) % 7
    together = run(logits, state_of(rows, VOCAB, *texts), generated=positions)
    turned = np.random.default_rng(1).permutation(32)
    narrow = run(logits, state_of(rows, VOCAB, *texts), generated=positions, narrow=True)
    others = [(np.arange(32), narrow)]
    for which in (turned, np.arange(5, 10), *(np.array([i]) for i in range(len(KINDS)))):
        state = state_of(rows, VOCAB, *texts)
        others.append((which, run(logits[which], state, slots=which, generated=positions[which])))
    for which, drawn in others:
        assert np.array_equal(drawn.token_ids, np.asarray(together.token_ids)[which])
        for found, wanted in zip(drawn.scores, together.scores, strict=True):
            assert np.array_equal(found, np.asarray(wanted)[which])


def test_only_sampling_rows_change_the_state() -> None:
    rows = kinds(32)
    before = state_of(rows, VOCAB)
    sample = np.arange(32) % 2 == 0
    slots = np.where(sample, np.arange(32), 32)
    drawn = run(some_logits(32), before, slots=slots, sample=sample)
    tokens, last = np.asarray(drawn.token_ids), np.asarray(drawn.state.last_token)
    assert np.array_equal(last[:32], tokens) and not tokens[~sample].any() and last[32] == 0
    counts = np.asarray(drawn.state.output_counts)
    for i, row in enumerate(rows):
        wanted = {int(tokens[i]): 1} if sample[i] and row.penalised else {}
        assert {int(token): int(counts[i, token]) for token in np.flatnonzero(counts[i])} == wanted
    assert not counts[32].any()


def test_drawn_tokens_count_against_themselves() -> None:
    row = replace(GREEDY, frequency_penalty=1.0)
    state, logits, drawn = state_of([row], VOCAB), np.zeros((1, VOCAB), np.float32), []
    logits[0, [4, 7]] = 5.0, 3.5
    for position in range(6):
        result = run(logits, state, generated=position)
        state = result.state
        drawn.append(int(result.token_ids[0]))
    assert drawn == [4, 4, 7, 4, 7, 4]


def test_stop_ids_are_free_from_min_tokens_on() -> None:
    row = replace(GREEDY, stop_ids=(4,), min_tokens=2)
    logits = np.zeros((1, VOCAB), np.float32)
    logits[0, [4, 7]] = 5.0, 3.0
    tokens = [int(run(logits, state_of([row], VOCAB), generated=position).token_ids[0]) for position in range(4)]
    assert tokens == [7, 7, 4, 4]


def test_rows_that_are_not_finite_say_so_and_harm_nobody() -> None:
    rows = kinds(32)
    logits = some_logits(32)
    clean = run(logits, state_of(rows, VOCAB))
    broken = logits.copy()
    broken[0, 7], broken[1, 999], broken[3, 0], broken[6, 5] = np.nan, np.nan, np.inf, np.inf
    broken[4] = -np.inf
    broken[13, 500] = np.nan
    broken[10, broken[10] < 0] = -np.inf  # a mask is no fault
    state = state_of(rows, VOCAB)
    drawn = run(broken, state, sample=np.arange(32) != 13)
    bad = np.isin(np.arange(32), [0, 1, 3, 4, 6])
    assert np.array_equal(drawn.finite, ~bad)
    assert not np.any(np.asarray(drawn.token_ids)[bad])
    assert not np.any(drawn.state.output_counts[6])
    same = ~bad & (np.arange(32) != 10) & (np.arange(32) != 13)
    assert np.array_equal(np.asarray(drawn.token_ids)[same], np.asarray(clean.token_ids)[same])


def test_equal_logits_and_masks_still_draw_and_score() -> None:
    rows = kinds(32)
    logits = np.zeros((32, VOCAB), np.float32)
    logits[3, 4:] = -np.inf
    drawn = run(logits, state_of(rows, VOCAB))
    assert drawn.token_ids[0] == 0 and drawn.token_ids[3] < 4
    assert drawn.scores.top_ids[2].tolist() == list(range(20))
    assert drawn.scores.logprob[2] == pytest.approx(-np.log(VOCAB), abs=1e-5)
    assert drawn.scores.top_logprobs[3].tolist() == pytest.approx([-np.log(4)] * 4 + [sampling.LOGPROB_FLOOR] * 16)


def test_drawing_happens_in_place() -> None:
    state = state_of(kinds(32), VOCAB)
    places = [part.unsafe_buffer_pointer() for part in state]
    after = run(some_logits(32), state).state
    assert [part.unsafe_buffer_pointer() for part in after] == places


def test_scores_are_finite_for_extreme_logits() -> None:
    logits = some_logits(3)
    logits[0, 5] = 1e30
    logits[1, 6] = -1e30
    logits[2, 100:] = -np.inf
    scores = sampling.score(logits, np.array([4, 6, 500], np.int32))
    assert all(np.isfinite(part).all() for part in scores)
    assert scores.logprob.tolist() == [sampling.LOGPROB_FLOOR] * 3
    assert scores.top_ids[0, 0] == 5 and scores.top_logprobs[0, 0] == 0.0


def test_the_real_vocabulary_of_the_embedded_model() -> None:
    vocab = 49152
    rows = [replace(row, logit_bias=()) for row in kinds(9)]
    logits = (np.random.default_rng(2).gumbel(size=(9, vocab)) * 2).astype(np.float32)
    drawn = run(logits, state_of(rows, vocab))
    raw = log_softmax(logits)
    for i, row in enumerate(rows):
        token = int(drawn.token_ids[i])
        assert token == logits[i].argmax() if row.temperature == 0 else in_nucleus(logits[i], row, token)
        if row.top_logprobs is not None:
            assert drawn.scores.logprob[i] == pytest.approx(raw[i, token], abs=1e-5)


def in_nucleus(logits: np.ndarray, row: SamplingParams, token: int) -> bool:
    ordered = np.sort(logits.astype(np.float64))[::-1][: row.top_k or None]
    weights = np.exp((ordered - ordered[0]) / row.temperature)
    return bool(
        logits[token] >= ordered[-1]
        and weights[ordered > logits[token]].sum() < row.top_p * weights.sum() * (1 + 1e-5)
        and (logits[token] - ordered[0]) / row.temperature >= np.log(max(row.min_p, 1e-300)) - 1e-5
    )
