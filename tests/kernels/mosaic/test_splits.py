"""Split-K: merged parts are the softmax over all keys, and the number of parts is sensible."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_pallas.paged_attention.mosaic.splits import MIN_BLOCKS, choose_splits, merge

KEYS, HEAD_DIM = 12, 5


def _parts(scores, values, bounds):
    """The result of each stretch of keys on its own: out [K, S, G, D] and lse [K, S, G] in base 2."""
    outs, lses = [], []
    for start, stop in zip(bounds, bounds[1:], strict=False):
        weights = np.exp(scores[..., start:stop])  # [K, G, keys]
        total = weights.sum(-1)
        out = np.einsum("kgs,ksd->kgd", weights, values[:, start:stop])
        outs.append(np.where(total[..., None] > 0, out / np.where(total > 0, total, 1.0)[..., None], 0.0))
        with np.errstate(divide="ignore"):
            lses.append(np.log2(total))
    return jnp.asarray(np.stack(outs, 1), jnp.float32), jnp.asarray(np.stack(lses, 1), jnp.float32)


@settings(deadline=None)  # the first of each shape is compiled
@given(
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.1, 3.0, 80.0]),
    cuts=st.lists(st.integers(0, KEYS), max_size=4),
    with_sinks=st.booleans(),
)
def test_merged_parts_are_the_softmax_over_all_keys(seed, spread, cuts, with_sinks):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((2, 3, KEYS)) * spread
    values = rng.standard_normal((2, KEYS, HEAD_DIM))
    sinks = rng.standard_normal((2, 3)) * spread if with_sinks else None
    with_extra = scores if sinks is None else np.concatenate([scores, sinks[..., None]], -1)
    highest = with_extra.max(-1, keepdims=True)
    weights = np.exp(scores - highest) / np.exp(with_extra - highest).sum(-1, keepdims=True)
    expected = np.einsum("kgs,ksd->kgd", weights, values)
    out, lse = _parts(scores, values, [0, *sorted(cuts), KEYS])
    got = merge(out, lse, None if sinks is None else jnp.asarray(sinks, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)


def test_rows_that_saw_nothing_are_zeros_and_leave_others_alone():
    rng = np.random.default_rng(0)
    out = jnp.asarray(rng.standard_normal((2, 1, 3, 4, HEAD_DIM)), jnp.float32).at[0].set(0.0)
    lse = jnp.asarray(rng.standard_normal((2, 1, 3, 4)), jnp.float32).at[0].set(-jnp.inf)
    for sinks in (None, jnp.ones((1, 4)), jnp.full((1, 4), -jnp.inf)):
        got = merge(out, lse, sinks)
        assert got.shape == (2, 1, 4, HEAD_DIM)
        np.testing.assert_array_equal(got[0], 0.0)
        np.testing.assert_array_equal(got[1], merge(out[1], lse[1], sinks))
        assert np.isfinite(got).all()


def test_one_split_without_sinks_is_left_as_it_is():
    out = jnp.asarray(np.random.default_rng(0).standard_normal((1, 1, 2, HEAD_DIM)), jnp.float32)
    np.testing.assert_array_equal(merge(out, jnp.full((1, 1, 2), 7.0), None), out[:, 0])


def test_a_sink_takes_its_share():
    """One key of score 0 and a sink of ln 3: the sink has three quarters."""
    got = merge(jnp.ones((1, 1, 1, 1)), jnp.zeros((1, 1, 1)), jnp.full((1, 1), math.log(3.0)))
    np.testing.assert_allclose(got, 0.25, rtol=1e-6)


rows = st.integers(0, 300)
kv_heads = st.integers(1, 32)
lengths = st.integers(0, 200_000)
multiprocessors = st.sampled_from([28, 80, 108, 132, 148])
blocks = st.sampled_from([16, 32, 64, 128])


@given(rows, kv_heads, lengths, multiprocessors, blocks)
def test_splits_fill_the_device_and_no_more(rows, kv_heads, longest, multiprocessors, block_tokens):
    splits = choose_splits(rows, kv_heads, longest, multiprocessors, block_tokens)
    programs = max(1, rows * kv_heads)
    assert splits >= 1 and splits & (splits - 1) == 0
    if splits > 1:
        assert longest // block_tokens >= splits * MIN_BLOCKS
        assert programs * splits <= 2 * math.sqrt(2) * multiprocessors
    if longest // block_tokens >= 2 * splits * MIN_BLOCKS:  # keys would allow more
        assert programs * splits > math.sqrt(2) * multiprocessors


@given(rows, kv_heads, lengths, multiprocessors, blocks)
def test_more_rows_split_less_and_longer_rows_split_more(rows, kv_heads, longest, multiprocessors, block_tokens):
    splits = choose_splits(rows, kv_heads, longest, multiprocessors, block_tokens)
    assert choose_splits(rows + 1, kv_heads, longest, multiprocessors, block_tokens) <= splits
    assert choose_splits(rows, kv_heads, longest + 1000, multiprocessors, block_tokens) >= splits
    assert choose_splits(rows, kv_heads, longest, multiprocessors + 20, block_tokens) >= splits


def test_splits_of_familiar_loads():
    assert choose_splits(1, 8, 32768, 132, 64) == 32
    assert choose_splits(16, 8, 8192, 132, 64) == 2
    assert choose_splits(128, 8, 2048, 132, 64) == 1
    assert choose_splits(1, 3, 200, 80, 64) == 1
