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


def check_heads(heads: int, kv_heads: int, head_dim: int) -> None:
    """Raises ValueError for heads that no attention can have: key/value heads have equally many query heads each."""
    if min(heads, kv_heads, head_dim) < 1:
        raise ValueError(f"{heads} query heads, {kv_heads} key/value heads of {head_dim} numbers; 1 is the least")
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads are no multiple of {kv_heads} key/value heads")


def write(
    pool: jax.Array, keys: jax.Array, values: jax.Array, table: jax.Array, first: jax.Array, count: jax.Array
) -> jax.Array:
    """See `api.write`. Tokens that are not written land in page 0, which nobody reads."""
    pages, slots = places(table, first, keys.shape[1], pool.shape[3])
    pages = jnp.where(written(table, first, count, keys.shape[1], pool.shape[3]), pages, 0)
    return pool.at[:, :, pages.reshape(-1), slots.reshape(-1)].set(storable(keys, values, pool.dtype))


def places(table: jax.Array, first: jax.Array, tokens: int, page_tokens: int) -> tuple[jax.Array, jax.Array]:
    """Pages of each row's new tokens [R, Q] int32, and their places in them [R, Q] int32."""
    positions = first[:, None] + jnp.arange(tokens, dtype=jnp.int32)[None, :]
    columns = jnp.minimum(positions // page_tokens, table.shape[1] - 1)
    return jnp.take_along_axis(table, columns, axis=1), positions % page_tokens


def written(table: jax.Array, first: jax.Array, count: jax.Array, tokens: int, page_tokens: int) -> jax.Array:
    """Which of the tokens are neither padding nor past the table's end [R, Q] bool."""
    room = table.shape[1] * page_tokens - first
    return jnp.arange(tokens, dtype=jnp.int32)[None, :] < jnp.minimum(count, room)[:, None]


def storable(keys: jax.Array, values: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Keys and values [R, Q, K, D] as a pool has them [2, K, R * Q, D], with 0 for what is not finite in its type.

    Pages are used again, and 0 * NaN is NaN under any mask. A number that overflows becomes 0 as infinity does, not the
    largest that there is, which would take the whole softmax of its own sequence.
    """
    both = jnp.stack([keys, values])
    kept = jnp.finfo(dtype)
    # not by a cast there and back, which compilers may leave out
    rounded = lax.reduce_precision(both, exponent_bits=kept.nexp, mantissa_bits=kept.nmant)
    both = jnp.where(jnp.isfinite(rounded), both, jnp.zeros((), both.dtype))
    return both.astype(dtype).reshape(2, -1, *keys.shape[2:]).swapaxes(1, 2)


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
    scores = jnp.where(visible[:, None, None], scores, MASKED)
    if sinks is not None:
        logits = jnp.broadcast_to(sinks.reshape(1, kv_heads, -1, 1, 1), (*scores.shape[:-1], 1))
        scores = jnp.concatenate([scores, logits], axis=-1)
    weights = jax.nn.softmax(scores, axis=-1)[..., : keys.shape[2]]
    out = jnp.einsum("rkgqs,krsd->rqkgd", weights, values, precision=lax.Precision.HIGHEST)
    return out.reshape(rows, tokens, heads, head_dim)
