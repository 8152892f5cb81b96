"""Prefill for Ampere (sm_80, sm_86): many new tokens per row over its pages, causal, ragged.

A program of the grid is one row, one key/value head and one tile of its (query, group) pairs in the order of the
queries. A group that is no power of two costs nothing: a tile may start and end within a query's group.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic.ampere_attention import attend_blocks, scratch
from kernels_pallas.paged_attention.mosaic.ampere_blocks import BlockReader
from kernels_pallas.paged_attention.mosaic.common import MASKED, log_sum, normalised, prefill_blocks, store, visible
from kernels_pallas.paged_attention.mosaic.configs import PrefillConfig
from kernels_pallas.paged_attention.options import AttentionOptions


def prefill(
    queries: jax.Array,  # [R, Q, K, G, D]
    pool: jax.Array,  # [2, K, P, T, D] bfloat16 or float16
    table: jax.Array,  # [R, N] int32, N whole blocks
    first: jax.Array,  # [R] int32, position of query 0
    count: jax.Array,  # [R] int32, real queries
    *,
    options: AttentionOptions,
    config: PrefillConfig,
    interpret: Any = None,
) -> tuple[jax.Array, jax.Array]:
    """Attention of each row's queries over the keys at and before their positions, their own included.

    Returns attention [R, Q, K, G, D] float32 and the log2 of the sums of exp(score) [R, Q, K, G] float32. Entries at
    and past `count` mean nothing; attention there is finite. Raises ValueError for sizes that no tile fits.
    """
    rows, tokens, kv_heads, group, head_dim = queries.shape
    page_tokens = pool.shape[3]
    pairs = queries.astype(pool.dtype).swapaxes(1, 2).reshape(rows, kv_heads, tokens * group, head_dim)
    pairs = jnp.pad(pairs, ((0, 0), (0, 0), (0, -tokens * group % config.block_queries), (0, 0)))
    out, lse = plgpu.kernel(
        partial(_program, options=options, group=group, page_tokens=page_tokens),
        out_type=(
            jax.ShapeDtypeStruct(pairs.shape, jnp.float32),
            jax.ShapeDtypeStruct(pairs.shape[:3], jnp.float32),
        ),
        grid=(rows, kv_heads, pairs.shape[2] // config.block_queries),
        grid_names=("row", "head", "tile"),
        scratch_types=scratch(config.block_queries, pool, config, interpreted=interpret is not None),
        compiler_params=plgpu.CompilerParams(approx_math=True),
        kernel_name="paged_prefill_ampere",
        **({} if interpret is None else {"interpret": interpret}),
    )(pairs, pool.reshape(2, kv_heads, -1, head_dim), table, first, count)
    out = out[:, :, : tokens * group].reshape(rows, kv_heads, tokens, group, head_dim)
    lse = lse[:, :, : tokens * group].reshape(rows, kv_heads, tokens, group)
    return out.swapaxes(1, 2), lse.swapaxes(1, 2)


def _program(
    queries: Any,
    pool: Any,
    table: Any,
    first: Any,
    count: Any,
    out: Any,
    lse: Any,
    *,
    query_tile: Any,
    weights_tile: Any,
    buffers: Any,
    barriers: Any,
    options: AttentionOptions,
    group: int,
    page_tokens: int,
) -> None:
    row, head, tile = (lax.axis_index(name) for name in ("row", "head", "tile"))
    tile_rows, block_tokens = weights_tile.shape
    start_pair = tile * tile_rows
    origin = first[row]
    lowest = lax.div(start_pair, group)
    highest_query = jnp.minimum(lax.div(start_pair + (tile_rows - 1), group), count[row] - 1)
    start, full_start, full_stop, stop = prefill_blocks(
        origin + lowest, origin + highest_query, block_tokens=block_tokens, window=options.window
    )
    stop = jnp.where(highest_query < lowest, start, stop)  # a tile past the row's queries reads nothing

    def hide(block: jax.Array, scores: jax.Array, layout: Any) -> jax.Array:
        keys = block * block_tokens + plgpu.broadcasted_iota(jnp.int32, scores.shape, 1, layout=layout)
        pairs = start_pair + plgpu.broadcasted_iota(jnp.int32, scores.shape, 0, layout=layout)
        return jnp.where(visible(keys, origin + lax.div(pairs, group), options.window), scores, MASKED)

    def mask(block: jax.Array, scores: jax.Array, layout: Any) -> jax.Array:
        whole = (block >= full_start) & (block < full_stop)
        return lax.cond(whole, lambda: scores, lambda: hide(block, scores, layout))

    blocks = BlockReader(pool, table, row, head, start, stop, page_tokens, buffers, barriers)
    pairs = pl.ds(start_pair, tile_rows)
    mixed, highest, total = attend_blocks(queries.at[row, head, pairs], blocks, query_tile, weights_tile, options, mask)
    store(out.at[row, head, pairs], normalised(mixed, total))
    store(lse.at[row, head, pairs], log_sum(highest, total))
