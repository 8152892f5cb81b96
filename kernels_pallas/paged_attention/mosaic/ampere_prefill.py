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

from kernels_pallas.paged_attention.mosaic.ampere_attention import attend_blocks, scratch
from kernels_pallas.paged_attention.mosaic.ampere_blocks import BlockReader
from kernels_pallas.paged_attention.mosaic.common import (
    from_pairs,
    launch,
    log_sum,
    mask,
    normalised,
    one_run_of_pages,
    pair_positions,
    prefill_blocks,
    store,
    to_pairs,
)
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
    and past `count` mean nothing; attention there is finite, and where a whole tile has no real query attention is
    zero and the logarithm -inf. Raises ValueError for sizes that no tile fits.
    """
    rows, tokens, kv_heads, group, _ = queries.shape
    pairs = to_pairs(queries, pool.dtype, config.block_queries)
    out, lse = launch(
        partial(_program, options=options, group=group, page_tokens=pool.shape[3]),
        pairs,
        one_run_of_pages(pool),
        table,
        first,
        count,
        name="paged_prefill_ampere",
        shapes=(pairs.shape, pairs.shape[:3]),
        grid={"row": rows, "head": kv_heads, "tile": pairs.shape[2] // config.block_queries},
        scratch=scratch(config.block_queries, pool, config, interpreted=interpret is not None),
        interpret=interpret,
    )
    return from_pairs(out, tokens, group), from_pairs(lse, tokens, group)


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
        positions = pair_positions(origin, start_pair, group, scores.shape, layout)
        return mask(scores, block, positions, options.window, layout)

    def hide_some(block: jax.Array, scores: jax.Array, layout: Any) -> jax.Array:
        whole = (block >= full_start) & (block < full_stop)
        return lax.cond(whole, lambda: scores, lambda: hide(block, scores, layout))

    blocks = BlockReader(pool, table, row, head, start, stop, page_tokens, buffers, barriers)
    pairs = pl.ds(start_pair, tile_rows)
    tile_queries = queries.at[row, head, pairs]
    mixed, highest, total = attend_blocks(tile_queries, blocks, query_tile, weights_tile, options, hide_some)
    store(out.at[row, head, pairs], normalised(mixed, total))
    store(lse.at[row, head, pairs], log_sum(highest, total))
