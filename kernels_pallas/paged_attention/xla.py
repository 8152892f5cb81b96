"""Paged attention in plain XLA, for CPUs: blocks of pages in a loop that ends at the longest row, online softmax.

The loop's length is data, so one compiled program serves every context length, and padding of the block table costs
nothing. Online softmax after Milakov and Gimelshein 2018, blocked as in FlashAttention (Dao et al. 2022).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from kernels_pallas.paged_attention.options import AttentionOptions
from kernels_pallas.paged_attention.reference import MASKED, pool_shape, write

__all__ = ["attend", "pool_shape", "write"]

KEY_BLOCK = 256  # keys per turn of the loop: fewer pay for more turns, more for masked keys of short rows
QUERY_BLOCK = 128  # queries per loop: later ones need not wait for keys that earlier ones do not see


def attend(
    queries: jax.Array,
    pool: jax.Array,
    table: jax.Array,
    first: jax.Array,
    count: jax.Array,
    options: AttentionOptions,
    sinks: jax.Array | None = None,
) -> jax.Array:
    """See `api.attend`."""
    tokens = queries.shape[1]
    parts = []
    for start in range(0, tokens, QUERY_BLOCK):
        stop = min(tokens, start + QUERY_BLOCK)
        part_count = jnp.clip(count - start, 0, stop - start)
        parts.append(_attend_block(queries[:, start:stop], pool, table, first + start, part_count, options, sinks))
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=1)


def _attend_block(
    queries: jax.Array,
    pool: jax.Array,
    table: jax.Array,
    first: jax.Array,
    count: jax.Array,
    options: AttentionOptions,
    sinks: jax.Array | None,
) -> jax.Array:
    rows, tokens, heads, head_dim = queries.shape
    kv_heads, page_tokens = pool.shape[1], pool.shape[3]
    group = heads // kv_heads
    block_pages = max(1, min(KEY_BLOCK // page_tokens, table.shape[1]))
    block_keys = block_pages * page_tokens
    table = jnp.pad(table, ((0, 0), (0, -table.shape[1] % block_pages)))

    grouped = (queries * options.scale).reshape(rows, tokens, kv_heads, group, head_dim).transpose(2, 0, 3, 1, 4)
    grouped = grouped.reshape(kv_heads, rows, group * tokens, head_dim).astype(pool.dtype)
    query_positions = first[:, None] + jnp.arange(tokens, dtype=jnp.int32)[None, :]
    query_positions = jnp.tile(query_positions, (1, group))[None, :, :, None]

    def turn(block: jax.Array, carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        highest, total, mixed = carry
        pages = lax.dynamic_slice_in_dim(table, block * block_pages, block_pages, axis=1)
        keys, values = jnp.take(pool, pages, axis=2, mode="clip").reshape(2, kv_heads, rows, block_keys, head_dim)
        scores = lax.dot_general(
            grouped, keys, (((3,), (3,)), ((0, 1), (0, 1))), preferred_element_type=jnp.float32
        )  # [K, R, group * Q, block_keys]
        if options.softcap is not None:
            scores = options.softcap * jnp.tanh(scores / options.softcap)
        key_positions = (block * block_keys + jnp.arange(block_keys, dtype=jnp.int32))[None, None, None, :]
        visible = key_positions <= query_positions
        if options.window is not None:
            visible &= key_positions > query_positions - options.window
        scores = jnp.where(visible, scores, MASKED)
        new_highest = jnp.maximum(highest, jnp.max(scores, axis=-1, keepdims=True))
        weights = jnp.exp(scores - new_highest)
        shrink = jnp.exp(highest - new_highest)
        block_mixed = lax.dot_general(
            weights.astype(values.dtype), values, (((3,), (2,)), ((0, 1), (0, 1))), preferred_element_type=jnp.float32
        )
        total = total * shrink + jnp.sum(weights, axis=-1, keepdims=True)
        return new_highest, total, mixed * shrink + block_mixed

    shape = (kv_heads, rows, group * tokens)
    highest, total = jnp.full((*shape, 1), MASKED, jnp.float32), jnp.zeros((*shape, 1), jnp.float32)
    if sinks is not None:  # a first key without a value
        logits = sinks.astype(jnp.float32).reshape(kv_heads, 1, group, 1)
        highest = jnp.broadcast_to(logits, (kv_heads, rows, group, tokens)).reshape(*shape, 1)
        total = jnp.ones_like(total)
    start_carry = (highest, total, jnp.zeros((*shape, head_dim), jnp.float32))
    _, total, mixed = lax.fori_loop(*_blocks_in_view(first, count, block_keys, options.window), turn, start_carry)
    out = (mixed / jnp.maximum(total, 1e-30)).reshape(kv_heads, rows, group, tokens, head_dim)
    return out.transpose(1, 3, 0, 2, 4).reshape(rows, tokens, heads, head_dim)


def _blocks_in_view(
    first: jax.Array, count: jax.Array, block_keys: int, window: int | None
) -> tuple[jax.Array, jax.Array]:
    """The blocks [from, to) that hold a key any row's queries can see."""
    busy = count > 0
    last = jnp.max(jnp.where(busy, first + count, 1))
    stop = (last + block_keys - 1) // block_keys
    if window is None:
        return jnp.zeros_like(stop), stop
    earliest = jnp.min(jnp.where(busy, first, last - 1)) - (window - 1)
    return jnp.maximum(earliest, 0) // block_keys, stop
