"""Split-K: how many parts a row's keys are read in side by side, and the parts' results made into one.

A part's result is its own softmax average and the base-2 logarithm of its softmax denominator, as in Flash-Decoding
(Dao et al. 2023): the average over all keys weighs each part by its share of the whole denominator.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

MIN_BLOCKS = 4  # per split: fewer pay more for filling the copy pipeline and merging than side by side saves


def merge(out: jax.Array, lse: jax.Array, sinks: jax.Array | None) -> jax.Array:
    """The attention over all keys from that over each split's.

    out [..., K, S, G, D] float32, each normalised; lse [..., K, S, G] float32, base 2, -inf where a split saw nothing.
    sinks [K, G] float32: logits, in natural units, of one more key per head that has no value, as in GPT-OSS: their
    exp joins the denominator; None for none. Returns [..., K, G, D] float32; zeros where no split saw a key.
    """
    highest = jnp.max(lse, axis=-2, keepdims=True)  # [..., K, 1, G]
    if sinks is not None:
        logits = (sinks.astype(jnp.float32) * math.log2(math.e))[:, None, :]
        logits = logits.reshape((1,) * (lse.ndim - 3) + logits.shape)  # [..., K, 1, G]
        highest = jnp.maximum(highest, logits)
    highest = jnp.where(jnp.isneginf(highest), 0.0, highest)  # -inf - -inf is NaN
    weights = jnp.exp2(lse - highest)
    total = jnp.sum(weights, axis=-2)
    if sinks is not None:
        total += jnp.exp2(logits - highest)[..., 0, :]
    share = weights / jnp.where(total > 0, total, 1.0)[..., None, :]
    return jnp.sum(out * share[..., None], axis=-3)


def choose_splits(rows: int, kv_heads: int, longest: int, multiprocessors: int, block_tokens: int) -> int:
    """How many splits make a decode step of `rows` rows fill a device of `multiprocessors` about twice.

    A power of two, so that few programs are compiled: the device is filled between sqrt(2) and 2 * sqrt(2) times where
    rows and keys allow. `longest`: the most keys that any row reads, the window where that is less. No split has fewer
    than MIN_BLOCKS blocks of `block_tokens` keys, unless there is one split only.
    """
    programs = max(1, rows * kv_heads)
    most = max(1, longest // (block_tokens * MIN_BLOCKS))
    splits = 1
    while 2 * splits <= most and (splits * programs) ** 2 <= 2 * multiprocessors**2:
        splits *= 2
    return splits
