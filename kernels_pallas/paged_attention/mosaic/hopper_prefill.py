"""Prefill for Hopper (sm_90): several new tokens per row over its pages, each under the causal mask.

The (query, group) pairs of one row and key/value head are cut into tiles. A program of the grid is one tile: one or two
warpgroups that each multiply their part of its pairs with blocks of keys, and one warpgroup that does nothing but ask
for blocks, so that the copies run ahead of the products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic import common, hopper_blocks
from kernels_pallas.paged_attention.mosaic.configs import PrefillConfig
from kernels_pallas.paged_attention.mosaic.hopper_blocks import ACCUMULATOR, PRODUCT_ROWS
from kernels_pallas.paged_attention.options import AttentionOptions

# Registers per thread. With two multiplying warpgroups the asking one's share goes to them; one has enough.
MULTIPLYING_REGISTERS = 232
ASKING_REGISTERS = 40


@dataclass(frozen=True, slots=True)
class _Tiles:
    """How the pairs of a row are cut; fixed at compile time."""

    group: int  # G query heads per key/value head; pair number i is query i // G, head i % G
    warpgroups: int  # that multiply
    pairs: int  # of one warpgroup
    tiles: int
    page_tokens: int
    options: AttentionOptions

    @property
    def tile_pairs(self) -> int:
        return self.warpgroups * self.pairs


def prefill(
    queries: jax.Array,  # [R, Q, K, G, D']
    pool: jax.Array,  # [2, K, P, T, D'] bfloat16 or float16
    table: jax.Array,  # [R, N] int32, N whole blocks
    first: jax.Array,  # [R] int32
    count: jax.Array,  # [R] int32
    *,
    options: AttentionOptions,
    config: PrefillConfig,
    interpret: Any = None,
) -> tuple[jax.Array, jax.Array]:
    """Attention of each row's queries at positions first, first + 1, ..., of which `count` are real.

    Returns out [R, Q, K, G, D'] float32 and lse [R, Q, K, G] float32, base 2; what is at and past `count` is finite in
    `out` and means nothing. Where a whole tile has no real query `out` is zero and `lse` -inf. Raises ValueError for
    shapes that do not fit.
    """
    rows, tokens, kv_heads, group, _ = queries.shape
    hopper_blocks.check_shapes(pool, table, config.block_tokens)
    if config.block_queries % PRODUCT_ROWS:
        raise ValueError(f"{config.block_queries} rows per warpgroup: not a multiple of {PRODUCT_ROWS}")
    warpgroups = 1 if tokens * group <= config.block_queries else 2
    tiles = -(-tokens * group // (warpgroups * config.block_queries))
    cut = _Tiles(group, warpgroups, config.block_queries, tiles, pool.shape[3], options)
    pairs = common.to_pairs(queries, pool.dtype, cut.tile_pairs)
    out, lse = common.launch(
        partial(_program, cut=cut),
        pairs,
        common.one_run_of_pages(pool),
        table,
        first,
        count,
        name="paged_prefill_hopper",
        shapes=(pairs.shape, pairs.shape[:3]),
        grid={"tile": tiles, "row": rows, "head": kv_heads},
        scratch=_scratch(cut, config, pool, interpreted=interpret is not None),
        interpret=interpret,
        num_threads=warpgroups + 1,
        thread_name="warpgroup",
    )
    return common.from_pairs(out, tokens, group), common.from_pairs(lse, tokens, group)


def _scratch(cut: _Tiles, config: PrefillConfig, pool: jax.Array, *, interpreted: bool) -> dict[str, Any]:
    blocks = common.shared_tile((config.stages, config.block_tokens, pool.shape[4]), pool.dtype)
    arrived = plgpu.Barrier(num_arrivals=config.block_tokens // cut.page_tokens, num_barriers=config.stages)
    free = plgpu.Barrier(num_arrivals=cut.warpgroups, num_barriers=config.stages)
    weights = common.shared_tile((cut.warpgroups, cut.pairs, config.block_tokens), pool.dtype)
    return {
        "query_tile": common.shared_tile((cut.warpgroups, cut.pairs, pool.shape[4]), pool.dtype),
        "weights_tile": weights if interpreted else None,
        "buffers": (blocks, blocks),
        "arrived": (arrived, arrived),
        "free": (free, free),
        "query_arrived": plgpu.Barrier(num_barriers=cut.warpgroups),
    }


def _program(
    queries: Any,
    pool: Any,
    table: Any,
    first: Any,
    count: Any,
    out: Any,
    lse: Any,
    *,
    cut: _Tiles,
    query_tile: Any,
    weights_tile: Any,
    buffers: tuple[Any, Any],
    arrived: tuple[Any, Any],
    free: tuple[Any, Any],
    query_arrived: Any,
) -> None:
    row, head, warpgroup = (lax.axis_index(name) for name in ("row", "head", "warpgroup"))
    tile = cut.tiles - 1 - lax.axis_index("tile")  # the later queries see more keys, so they start first
    block_tokens = buffers[0].shape[1]
    first_query = lax.div(tile * cut.tile_pairs, cut.group)
    last_query = jnp.minimum(lax.div(tile * cut.tile_pairs + (cut.tile_pairs - 1), cut.group), count[row] - 1)
    seen = (first[row] + first_query, first[row] + last_query)
    ranges = common.prefill_blocks(*seen, block_tokens=block_tokens, window=cut.options.window)
    real = last_query >= first_query
    start, full_start, full_stop, stop = (jnp.where(real, bound, 0) for bound in ranges)

    @pl.when(warpgroup < cut.warpgroups)
    def multiply() -> None:
        if cut.warpgroups > 1:
            plgpu.set_max_registers(MULTIPLYING_REGISTERS, action="increase")
        first_pair = tile * cut.tile_pairs + warpgroup * cut.pairs
        pairs = pl.ds(first_pair, cut.pairs)
        plgpu.copy_gmem_to_smem(queries.at[row, head, pairs], query_tile.at[warpgroup], query_arrived.at[warpgroup])
        plgpu.barrier_wait(query_arrived.at[warpgroup])
        turn = partial(
            _turn,
            cut=cut,
            start=start,
            first_position=first[row],
            first_pair=first_pair,
            query_tile=query_tile.at[warpgroup],
            weights_tile=None if weights_tile is None else weights_tile.at[warpgroup],
            buffers=buffers,
            arrived=arrived,
            free=free,
        )
        sums = common.empty_sums(cut.pairs, query_tile.shape[2], ACCUMULATOR)
        mixed, highest, total = _all_turns(turn, sums, (start, full_start, full_stop, stop), cut.options.window)
        common.store(out.at[row, head, pairs], common.normalised(mixed, total))
        common.store(lse.at[row, head, pairs], common.log_sum(highest, total))

    @pl.when(warpgroup == cut.warpgroups)
    def ask() -> None:
        if cut.warpgroups > 1:
            plgpu.set_max_registers(ASKING_REGISTERS, action="decrease")
        _ask_for_blocks(pool, table, row, head, start, stop, cut.page_tokens, buffers, arrived, free)


def _all_turns(
    turn: Callable[..., tuple[jax.Array, ...]],
    sums: tuple[jax.Array, ...],
    ranges: tuple[jax.Array, ...],
    window: int | None,
) -> tuple[jax.Array, ...]:
    """Every block from the first to the last; those that all queries see in full need no mask."""
    start, full_start, full_stop, stop = ranges
    if window is not None:
        sums = lax.fori_loop(start, full_start, partial(turn, masked=True), sums)
    sums = lax.fori_loop(full_start, full_stop, partial(turn, masked=False), sums)
    return lax.fori_loop(jnp.maximum(full_start, full_stop), stop, partial(turn, masked=True), sums)


def _turn(
    block: jax.Array,
    sums: tuple[jax.Array, ...],
    *,
    masked: bool,
    cut: _Tiles,
    start: jax.Array,
    first_position: jax.Array,
    first_pair: jax.Array,
    query_tile: Any,
    weights_tile: Any,
    buffers: tuple[Any, Any],
    arrived: tuple[Any, Any],
    free: tuple[Any, Any],
) -> tuple[jax.Array, ...]:
    """One block for one warpgroup's pairs."""
    mixed, highest, total = sums
    slot = lax.rem(block - start, buffers[0].shape[0])
    plgpu.barrier_wait(arrived[0].at[slot])
    products = hopper_blocks.products(query_tile, buffers[0].at[slot])
    plgpu.barrier_arrive(free[0].at[slot])
    scores = common.base2_scores(products, cut.options)
    if masked:
        queries = common.pair_positions(first_position, first_pair, cut.group, scores.shape, ACCUMULATOR)
        scores = common.mask(scores, block, queries, cut.options.window, ACCUMULATOR)
    weights, shrink, highest, total = common.update(scores, highest, total)
    operand = hopper_blocks.stage_weights(weights.astype(query_tile.dtype), weights_tile)
    plgpu.barrier_wait(arrived[1].at[slot])
    mixed = hopper_blocks.add_weighted(
        common.rescale(mixed, shrink), operand, buffers[1].at[slot], interpreted=weights_tile is not None
    )
    plgpu.barrier_arrive(free[1].at[slot])
    return mixed, highest, total


def _ask_for_blocks(
    pool: Any,
    table: Any,
    row: jax.Array,
    head: jax.Array,
    start: jax.Array,
    stop: jax.Array,
    page_tokens: int,
    buffers: tuple[Any, Any],
    arrived: tuple[Any, Any],
    free: tuple[Any, Any],
) -> None:
    """Copy blocks [start, stop), each as soon as its buffer is free."""
    stages, block_tokens, _ = buffers[0].shape

    def copy(block: jax.Array, _: None) -> None:
        slot = lax.rem(block - start, stages)
        pages = common.page_ids(table, row, block, block_tokens // page_tokens)
        for which in range(2):
            pl.when(block >= start + stages)(partial(plgpu.barrier_wait, free[which].at[slot]))
            hopper_blocks.copy_block(pool.at[which], pages, head, buffers[which].at[slot], arrived[which].at[slot])

    def drain(block: jax.Array, _: None) -> None:
        slot = lax.rem(block - start, stages)
        plgpu.barrier_wait(free[0].at[slot])
        plgpu.barrier_wait(free[1].at[slot])

    lax.fori_loop(start, stop, copy, None)
    # no buffer may be given up before it was read to the end
    lax.fori_loop(jnp.maximum(stop - stages, start), stop, drain, None)
