"""Sampling said again in plain float64 numpy, and a way to run the real one over a list of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np

from andes_jax.model import sampling
from andes_jax.model.sampling_state import SamplingState, count_ids, load_rows, make_state, pack_ids, pack_rows
from andes_jax.request import SamplingParams

draw = jax.jit(sampling.draw, donate_argnums=1, static_argnames="rows_at_once")
draw_narrow = partial(draw, rows_at_once=4)


def state_of(
    rows: Sequence[SamplingParams],
    vocab: int,
    prompts: Sequence[Sequence[int]] = (),
    outputs: Sequence[Sequence[int]] = (),
) -> SamplingState:
    """A state whose slot i holds rows[i], with the earlier tokens of penalised rows counted."""
    state = make_state(len(rows), vocab)
    for packed in pack_rows(list(enumerate(rows)), len(rows), vocab):
        state = load_rows(state, packed)
    for output, texts in ((False, prompts), (True, outputs)):
        for slot, ids in enumerate(texts):
            for packed in pack_ids(slot, ids, output=output, vocab=vocab):
                state = count_ids(state, packed)
    return state


def run(
    logits: np.ndarray,
    state: SamplingState,
    *,
    slots: Sequence[int] | None = None,
    generated: Sequence[int] | int = 0,
    sample: Sequence[bool] | bool = True,
    narrow: bool = False,
) -> sampling.Drawn:
    """One draw over all rows of logits; slot i for row i, each at the same position, unless told otherwise."""
    rows = len(logits)
    drawn = (draw_narrow if narrow else draw)(
        np.asarray(logits, np.float32),
        state,
        np.arange(rows, dtype=np.int32) if slots is None else np.asarray(slots, np.int32),
        np.broadcast_to(np.asarray(generated, np.int32), rows),
        np.broadcast_to(np.asarray(sample, bool), rows),
    )
    return jax.block_until_ready(drawn)


def edited(
    logits: np.ndarray, row: SamplingParams, prompt: Sequence[int] = (), output: Sequence[int] = (), generated: int = 0
) -> np.ndarray:
    """Logits [V] after bias, penalties and bans."""
    x = np.asarray(logits, np.float64).copy()
    for token, value in row.logit_bias:
        x[token] += value
    for token in set(prompt) | set(output):
        x[token] = x[token] * row.repetition_penalty if x[token] < 0 else x[token] / row.repetition_penalty
    for token in set(output):
        x[token] -= row.frequency_penalty * list(output).count(token) + row.presence_penalty
    if generated < row.min_tokens:
        x[list(row.stop_ids)] = -np.inf
    return x


def kept(x: np.ndarray, row: SamplingParams) -> np.ndarray:
    """[V] bool: what the filters leave of edited logits [V], written as their definitions say."""
    weights = np.exp((x - x.max()) / row.temperature)
    keep = x > -np.inf
    if row.top_k and row.top_k < len(x):
        keep &= x >= np.sort(x)[-row.top_k]
    if row.top_p < 1:
        share = np.where(keep, weights, 0.0) / weights[keep].sum()
        keep &= np.array([share[x > value].sum() < row.top_p for value in x])
    return keep & (weights >= row.min_p * (1 - 1e-6))


def probabilities(x: np.ndarray, row: SamplingParams) -> np.ndarray:
    """[V] float64: the distribution a draw must have."""
    weights = np.where(kept(x, row), np.exp((x - x.max()) / row.temperature), 0.0)
    return weights / weights.sum()


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = np.asarray(logits, np.float64)
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def chi_square_excess(counts: np.ndarray, expected: np.ndarray) -> float:
    """How many standard deviations Pearson's statistic lies above its mean; cells expecting under 5 are pooled."""
    small = expected < 5
    observed = np.append(counts[~small], counts[small].sum())
    wanted = np.append(expected[~small], expected[small].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    freedom = max(len(wanted) - 1, 1)
    return float((((observed - wanted) ** 2 / wanted).sum() - freedom) / np.sqrt(2 * freedom))


def threefry(key: tuple[int, int], block: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011) on Python integers."""
    mask = 0xFFFFFFFF
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (block[0] + keys[0]) & mask, (block[1] + keys[1]) & mask
    for step in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[step % 2]:
            a = (a + b) & mask
            b = (b << turn | b >> 32 - turn) & mask ^ a
        a = (a + keys[(step + 1) % 3]) & mask
        b = (b + keys[(step + 2) % 3] + step + 1) & mask
    return a, b
