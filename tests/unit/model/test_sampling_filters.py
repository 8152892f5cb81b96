from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from andes_jax.model import sampling_filters
from andes_jax.model.sampling_state import unpack
from andes_jax.request import SamplingParams
from tests.unit.model.sampling_reference import (
    chi_square_excess,
    kept,
    probabilities,
    state_of,
    threefry,
)

ROWS, VOCAB = 64, 150
PLAIN = SamplingParams(max_tokens=9)
FILTERS: list[dict] = [
    {},
    {"temperature": 0.3},
    {"temperature": 3.0},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 90},
    {"top_k": VOCAB + 1},
    {"top_p": 0.9},
    {"top_p": 0.3},
    {"top_p": 1e-9},
    {"top_p": 0.999999},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"top_k": 20, "top_p": 0.8},
    {"top_k": 100, "top_p": 0.8, "temperature": 2.0},
    {"top_k": 20, "top_p": 0.95, "min_p": 0.1, "temperature": 1.5},
    {"top_p": 0.95, "min_p": 0.02},
]


@jax.jit
def draw_all(logits: jax.Array, packed: jax.Array, generated: jax.Array) -> jax.Array:
    rows = unpack(packed)
    highest = jnp.max(logits, axis=1, keepdims=True)
    active = jnp.ones(len(logits), bool)
    return sampling_filters.draw_filtered(logits, highest, rows, sampling_filters.row_keys(rows, generated), active)


def draws(logits: np.ndarray, rows: list[SamplingParams], times: int) -> np.ndarray:
    """[times, R] tokens drawn from logits [R, V] at positions 0 .. times-1."""
    packed = state_of(rows, logits.shape[1]).parameters[: len(rows)]
    return np.array([draw_all(logits, packed, np.full(len(rows), i, np.int32)) for i in range(times)])


def logits_of(kind: str) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.gumbel(size=VOCAB) * 1.5
    if kind == "ties":
        x = np.round(x)
    elif kind == "masked":
        x[rng.random(VOCAB) < 0.8] = -np.inf
    elif kind == "flat":
        x[:] = 2.0
    elif kind == "extreme":
        x[:3] = 1e30
        x[3:6] = -1e30
    return x.astype(np.float32)


@pytest.mark.parametrize("kind", ["plain", "ties", "masked", "flat", "extreme"])
@pytest.mark.parametrize("asked", FILTERS, ids=str)
def test_draws_have_the_distribution_that_the_definitions_give(kind: str, asked: dict) -> None:
    row, x = replace(PLAIN, **asked), logits_of(kind)
    tokens = draws(np.tile(x, (ROWS, 1)), [replace(row, seed=seed) for seed in range(ROWS)], 40)
    wanted = probabilities(x.astype(np.float64), row)
    counts = np.bincount(tokens.ravel(), minlength=VOCAB)
    assert not counts[wanted == 0].any()
    assert chi_square_excess(counts, wanted * tokens.size) < 4


def test_every_row_obeys_its_own_filters_beside_others() -> None:
    rng = np.random.default_rng(5)
    logits = (rng.normal(size=(ROWS, VOCAB)) * rng.uniform(0.1, 5, size=(ROWS, 1))).astype(np.float32)
    rows = [replace(PLAIN, seed=i, **FILTERS[i % len(FILTERS)]) for i in range(ROWS)]
    for row, x, tokens in zip(rows, logits, draws(logits, rows, 30).T, strict=True):
        assert kept(x.astype(np.float64), row)[tokens].all()


@pytest.mark.parametrize("k", [1, 2, 63, 64, 65, 149])
def test_top_k_floor_is_the_kth_logit(k: int) -> None:
    logits = np.random.default_rng(k).normal(size=(4, VOCAB)).astype(np.float32)
    logits[1] = np.round(logits[1])  # holds both zeros
    logits[2, 40:] = -np.inf
    logits[3, 0] = 3e38
    floor = sampling_filters.top_k_floor(logits, np.full(4, k, np.int32), logits.max(axis=1, keepdims=True))
    assert np.array_equal(floor[:, 0], -np.sort(-logits, axis=1)[:, k - 1])


def test_random_words_are_threefry_of_seed_choice_position_and_attempt() -> None:
    seed, choice, position, attempt = (0x7EDCBA98 << 32) + 0xFEDCBA98, 5, 1234, 2
    rows = unpack(state_of([replace(PLAIN, seed=seed, choice=choice)], VOCAB).parameters[:1])
    keys = sampling_filters.row_keys(rows, np.array([position], np.int32))
    found = sampling_filters.uniforms(keys, np.array([attempt], np.int32), 3)
    key = (seed >> 32, seed & 0xFFFFFFFF)
    for data in (choice, position):
        key = threefry(key, (0, data))
    words = [threefry(key, (0, attempt * sampling_filters.LEVELS + level))[0] for level in range(3)]
    assert found[0].tolist() == [(word >> 8) / 2**24 for word in words]
    assert threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)  # the generator's published answer


@pytest.mark.parametrize("change", [{"seed": 1}, {"seed": 1 << 40}, {"choice": 1}])
def test_another_seed_or_choice_is_another_stream(change: dict) -> None:
    flat = np.zeros((2, VOCAB), np.float32)
    same, other = draws(flat, [PLAIN, replace(PLAIN, **change)], 40).T
    assert np.mean(same == other) < 0.2
    assert len(set(same.tolist())) > 20
