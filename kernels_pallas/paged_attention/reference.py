"""Paged attention written for the reader: gather every page, mask, softmax. The specification of the others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from kernels_pallas.paged_attention.options import AttentionOptions

MASKED = -1e30  # finite, so that a row without any visible key stays free of NaN


def pool_shape(pages: int, page_tokens: int, kv_heads: int, head_dim: int) -> tuple[int, ...]:
    """[keys and values, kv_heads, pages, page_tokens, head_dim]: one head's tokens of one page lie together."""
    return (2, kv_heads, pages, page_tokens, head_dim)


def write(
    pool: jax.Array, keys: jax.Array, values: jax.Array, table: jax.Array, first: jax.Array, count: jax.Array
) -> jax.Array:
    """See `api.write`. Tokens past `count` land in page 0, which nobody reads."""
    rows, tokens, kv_heads, head_dim = keys.shape
    page_tokens = pool.shape[3]
    offsets = jnp.arange(tokens, dtype=jnp.int32)[None, :]
    positions = first[:, None] + offsets
    pages = jnp.take_along_axis(table, jnp.minimum(positions // page_tokens, table.shape[1] - 1), axis=1)
    pages = jnp.where(offsets < count[:, None], pages, 0).reshape(-1)
    both = jnp.stack([keys, values])
    both = jnp.where(jnp.isfinite(both), both, 0.0)  # pages are used again, and 0 * NaN is NaN under any mask
    both = both.astype(pool.dtype).reshape(2, rows * tokens, kv_heads, head_dim)
    return pool.at[:, :, pages, (positions % page_tokens).reshape(-1)].set(both.swapaxes(1, 2))


def attend(
    queries: jax.Array,
    pool: jax.Array,
    table: jax.Array,
    first: jax.Array,
    count: jax.Array,
    options: AttentionOptions,
) -> jax.Array:
    """See `api.attend`."""
    rows, tokens, heads, head_dim = queries.shape
    kv_heads = pool.shape[1]
    keys, values = pool[:, :, table].reshape(2, kv_heads, rows, -1, head_dim).astype(jnp.float32)
    grouped = (queries * options.scale).reshape(rows, tokens, kv_heads, heads // kv_heads, head_dim)
    scores = jnp.einsum("rqkgd,krsd->rkgqs", grouped, keys, precision=lax.Precision.HIGHEST)
    if options.softcap is not None:
        scores = options.softcap * jnp.tanh(scores / options.softcap)
    query_positions = (first[:, None] + jnp.arange(tokens, dtype=jnp.int32)[None, :])[:, :, None]
    key_positions = jnp.arange(keys.shape[2], dtype=jnp.int32)[None, None, :]
    visible = key_positions <= query_positions
    if options.window is not None:
        visible &= key_positions > query_positions - options.window
    weights = jax.nn.softmax(jnp.where(visible[:, None, None], scores, MASKED), axis=-1)
    out = jnp.einsum("rkgqs,krsd->rqkgd", weights, values, precision=lax.Precision.HIGHEST)
    return out.reshape(rows, tokens, heads, head_dim)
