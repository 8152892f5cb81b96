from __future__ import annotations

import jax
import numpy as np
import pytest

from andes_jax.model.sampling_state import (
    COUNT_IDS,
    LOAD_ROWS,
    MAX_BANNED,
    MAX_BIASED,
    count_ids,
    load_rows,
    make_state,
    pack_ids,
    pack_rows,
    unpack,
)
from andes_jax.request import SamplingParams
from tests.unit.model.sampling_reference import state_of

FULL = SamplingParams(
    max_tokens=9,
    temperature=0.7,
    top_k=5,
    top_p=0.9,
    min_p=0.1,
    presence_penalty=0.5,
    frequency_penalty=-0.25,
    repetition_penalty=1.5,
    logit_bias=((3, 2.0), (7, -100.0)),
    seed=(0x7EDCBA98 << 32) + 0xFEDCBA98,
    choice=3,
    stop_ids=(2, 4),
    min_tokens=6,
    top_logprobs=0,
)


def test_a_row_arrives_as_it_was_asked_for() -> None:
    row = unpack(state_of([SamplingParams(max_tokens=1), FULL], 17).parameters[1:2])
    found = {name: np.asarray(value)[0] for name, value in row._asdict().items()}
    for name, value in (
        ("temperature", 0.7), ("top_k", 5), ("top_p", 0.9), ("min_p", 0.1), ("presence", 0.5), ("frequency", -0.25),
        ("repetition", 1.5), ("choice", 3), ("min_tokens", 6), ("wants_logprobs", 1), ("biased", 2), ("banned", 2),
    ):  # fmt: skip
        assert found[name] == pytest.approx(value), name
    assert found["seed"].tolist() == [0x7EDCBA98, 0xFEDCBA98]
    assert found["bias_ids"][:3].tolist() == [3, 7, 17] and found["bias_values"][:2].tolist() == [2.0, -100.0]
    assert found["ban_ids"][:3].tolist() == [2, 4, 17]
    assert bool(row.penalised[0])


def test_untouched_rows_are_greedy_and_unfiltered() -> None:
    row = unpack(make_state(2, 17).parameters)
    assert not np.any(row.temperature) and not np.any(row.penalised)
    assert np.all(np.asarray(row.top_p) == 1.0) and np.all(np.asarray(row.bias_ids) == 17)


@pytest.mark.parametrize(
    ("asked", "field", "stored"),
    [
        ({"temperature": 1e-6}, "temperature", 0.0),
        ({"top_k": 17}, "top_k", 0),
        ({"top_k": 10**12}, "top_k", 0),
        ({"min_tokens": 3}, "banned", 0),
        ({"stop_ids": (1, 2)}, "banned", 0),
    ],
)
def test_parameters_that_change_nothing_are_stored_as_none(asked: dict, field: str, stored: float) -> None:
    row = unpack(state_of([SamplingParams(max_tokens=1, **asked)], 17).parameters)
    assert getattr(row, field)[0] == stored


def test_many_rows_load_in_batches_and_only_where_they_belong() -> None:
    rows = [SamplingParams(max_tokens=1, temperature=1.0 + slot) for slot in range(2 * LOAD_ROWS + 3)]
    assert len(list(pack_rows(list(enumerate(rows)), len(rows), 17))) == 3
    state = state_of(rows, 17)
    assert np.asarray(unpack(state.parameters).temperature).tolist() == [1.0 + slot for slot in range(len(rows))] + [0]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"logit_bias": tuple((i, 1.0) for i in range(MAX_BIASED + 1))}, "logit_bias holds 301"),
        ({"logit_bias": ((1000, 1.0),)}, "logit_bias holds an id outside"),
        ({"logit_bias": ((-1, 1.0),)}, "logit_bias holds an id outside"),
        ({"stop_ids": tuple(range(MAX_BANNED + 1)), "min_tokens": 1}, "stop_ids holds 33"),
    ],
)
def test_rows_that_do_not_fit_are_refused(row: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(pack_rows([(0, SamplingParams(max_tokens=1, **row))], 1, 1000))


def test_earlier_tokens_are_counted_and_forgotten_with_the_slot() -> None:
    output = [3] * COUNT_IDS + [3, 5]
    state = state_of([FULL, FULL], 17, prompts=[[1, 2, 2], [16]], outputs=[output, []])
    counts, seen = np.asarray(state.output_counts), np.asarray(state.prompt_seen)
    assert counts[0].tolist() == [0, 0, 0, COUNT_IDS + 1, 0, 1, *[0] * 11]
    assert np.flatnonzero(seen[0]).tolist() == [1, 2] and np.flatnonzero(seen[1]).tolist() == [16]
    assert not counts[1:].any() and not seen[2].any()

    (packed,) = pack_rows([(0, FULL)], 2, 17)
    state = load_rows(state, packed)
    assert not np.asarray(state.output_counts).any()
    assert np.flatnonzero(state.prompt_seen).tolist() == [17 + 16]


def test_loading_and_counting_happen_in_place() -> None:
    state = jax.block_until_ready(make_state(300, 1000))
    places = [part.unsafe_buffer_pointer() for part in state]
    (packed,) = pack_rows([(0, FULL)], 300, 1000)
    (ids,) = pack_ids(0, [1, 2], output=True, vocab=1000)
    counts_bytes = state.output_counts.nbytes
    for change, argument in ((load_rows, packed), (count_ids, ids)):
        assert change.lower(state, argument).compile().memory_analysis().temp_size_in_bytes < counts_bytes / 4
        state = change(state, argument)
        assert [part.unsafe_buffer_pointer() for part in state] == places
