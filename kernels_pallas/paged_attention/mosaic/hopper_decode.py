"""Decode for Hopper (sm_90): one new token per row over its pages, the keys shared out among splits.

A program of the grid is one row, one key/value head and one split: one warpgroup that multiplies the head's G queries,
padded to the 64 rows of a product, with the split's blocks of keys, and asks for a block as soon as its buffer is free.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic import common, hopper_blocks
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig
from kernels_pallas.paged_attention.mosaic.hopper_blocks import ACCUMULATOR, PRODUCT_ROWS
from kernels_pallas.paged_attention.options import AttentionOptions

MAX_GROUP = PRODUCT_ROWS


def decode(
    queries: jax.Array,  # [R, K, G, D']
    pool: jax.Array,  # [2, K, P, T, D'] bfloat16 or float16
    table: jax.Array,  # [R, N] int32, N whole blocks
    length: jax.Array,  # [R] int32
    *,
    options: AttentionOptions,
    config: DecodeConfig,
    interpret: Any = None,
) -> tuple[jax.Array, jax.Array]:
    """Attention of each row's query, at position length - 1, over the row's first `length` keys, split by split.

    Returns out [R, K, S, G, D'] float32 and lse [R, K, S, G] float32, base 2; zeros and -inf where a split has no key.
    Raises ValueError for shapes that do not fit.
    """
    rows, kv_heads, group, head_dim = queries.shape
    page_tokens, dtype = pool.shape[3], pool.dtype
    hopper_blocks.check_shapes(pool, table, config.block_tokens)
    if group > MAX_GROUP:
        raise ValueError(f"{group} query heads per key/value head, at most {MAX_GROUP}")
    copied = -(-group // common.TILE_ROWS) * common.TILE_ROWS
    padded = jnp.pad(queries.astype(dtype), ((0, 0), (0, 0), (0, copied - group), (0, 0)))
    blocks = common.shared_tile((config.stages, config.block_tokens, head_dim), dtype)
    arrived = plgpu.Barrier(num_arrivals=config.block_tokens // page_tokens, num_barriers=config.stages)
    weights = common.shared_tile((PRODUCT_ROWS, config.block_tokens), dtype)
    scratch: dict[str, Any] = {
        "query_tile": common.shared_tile((PRODUCT_ROWS, head_dim), dtype),
        "out_tile": common.shared_tile((PRODUCT_ROWS, head_dim), jnp.float32),
        "weights_tile": None if interpret is None else weights,
        "buffers": (blocks, blocks),
        "arrived": (arrived, arrived),
        "query_arrived": plgpu.Barrier(),
    }
    shape = (rows, kv_heads, config.splits)
    out, lse = common.launch(
        partial(_program, options=options, splits=config.splits, page_tokens=page_tokens, copied=copied),
        padded,
        common.one_run_of_pages(pool),
        table,
        length,
        name="paged_decode_hopper",
        shapes=((*shape, copied, head_dim), (*shape, PRODUCT_ROWS)),
        grid={"row": rows, "head": kv_heads, "split": config.splits},
        scratch=scratch,
        interpret=interpret,
    )
    return out[:, :, :, :group], lse[:, :, :, :group]


def _program(
    queries: Any,
    pool: Any,
    table: Any,
    length: Any,
    out: Any,
    lse: Any,
    *,
    query_tile: Any,
    out_tile: Any,
    weights_tile: Any,
    buffers: tuple[Any, Any],
    arrived: tuple[Any, Any],
    query_arrived: Any,
    options: AttentionOptions,
    splits: int,
    page_tokens: int,
    copied: int,
) -> None:
    row, head, split = (lax.axis_index(name) for name in ("row", "head", "split"))
    stages, block_tokens, head_dim = buffers[0].shape
    seen = length[row]
    start, stop = common.decode_blocks(seen, split, splits=splits, block_tokens=block_tokens, window=options.window)

    def ask(block: jax.Array) -> None:
        slot = lax.rem(block - start, stages)
        pages = common.page_ids(table, row, block, block_tokens // page_tokens)
        for which in range(2):
            hopper_blocks.copy_block(pool.at[which], pages, head, buffers[which].at[slot], arrived[which].at[slot])

    plgpu.copy_gmem_to_smem(queries.at[row, head], query_tile.at[pl.ds(0, copied)], query_arrived)
    for ahead in range(stages):
        pl.when(start + ahead < stop)(partial(ask, start + ahead))
    plgpu.barrier_wait(query_arrived)

    def turn(block: jax.Array, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        mixed, highest, total = sums
        slot = lax.rem(block - start, stages)
        plgpu.barrier_wait(arrived[0].at[slot])
        scores = common.base2_scores(hopper_blocks.products(query_tile, buffers[0].at[slot]), options)
        scores = common.mask(scores, block, seen - 1, options.window, ACCUMULATOR)
        weights, shrink, highest, total = common.update(scores, highest, total)
        operand = hopper_blocks.stage_weights(weights.astype(pool.dtype), weights_tile)
        plgpu.barrier_wait(arrived[1].at[slot])
        mixed = hopper_blocks.add_weighted(
            common.rescale(mixed, shrink), operand, buffers[1].at[slot], interpreted=weights_tile is not None
        )
        pl.when(block + stages < stop)(partial(ask, block + stages))
        return mixed, highest, total

    sums = common.empty_sums(PRODUCT_ROWS, head_dim, ACCUMULATOR)
    mixed, highest, total = lax.fori_loop(start, stop, turn, sums)
    out_tile[...] = common.normalised(mixed, total)
    lse[row, head, split] = common.log_sum(highest, total)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(out_tile.at[pl.ds(0, copied)], out.at[row, head, split])
    plgpu.wait_smem_to_gmem(0)
