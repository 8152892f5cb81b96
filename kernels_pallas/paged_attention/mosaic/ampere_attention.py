"""Attention of one tile of query rows over blocks of keys, on Ampere's tensor cores (mma.sync), for decode and prefill.

The tile's M rows are shared out among four warps: with 64 rows or more each warp has rows of its own; with 16 the warps
share the keys in the first product and the head size in the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic.ampere_blocks import BlockReader, block_buffers, copy_and_wait, shared_tile
from kernels_pallas.paged_attention.mosaic.common import base2_scores, empty_sums, rescale, update
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from kernels_pallas.paged_attention.options import AttentionOptions

MMA_ROWS = 16  # rows of one tensor-core instruction
WARPS = 4

Sums = tuple[jax.Array, jax.Array, jax.Array]  # weighted values [M, D], highest base-2 score [M], sum of weights [M]


def scratch(rows: int, pool: jax.Array, config: DecodeConfig | PrefillConfig, *, interpreted: bool) -> dict[str, Any]:
    """Shared memory of a program with a tile of `rows` query rows. Raises ValueError for sizes that no tile fits."""
    if rows not in (16, 32, 64, 128):
        raise ValueError(f"a tile of {rows} query rows; there are tiles of 16, 32, 64 and 128")
    buffers = block_buffers(pool, config.block_tokens, config.stages, interpreted=interpreted)
    return {
        "query_tile": shared_tile((rows, pool.shape[4]), pool.dtype, copy_rows=rows),
        "weights_tile": shared_tile((rows, config.block_tokens), pool.dtype),
        **buffers,
    }


def attend_blocks(
    queries: Any,  # [M, D] in device memory
    blocks: BlockReader,
    query_tile: Any,  # [M, D] in shared memory
    weights_tile: Any,  # [M, block_tokens] in shared memory
    options: AttentionOptions,
    mask: Callable[[jax.Array, jax.Array, Any], jax.Array],
) -> Sums:
    """The reader's blocks under an online softmax, float32; `mask(block, scores, layout)` hides what is not seen."""
    rows, head_dim = query_tile.shape
    layouts = _Layouts.of(query_tile)
    copy_and_wait(queries, query_tile, blocks.barriers)
    blocks.begin()

    def turn(block: jax.Array, sums: Sums) -> Sums:
        mixed, highest, total = sums
        scores = base2_scores(_scores(query_tile, blocks.keys(block), layouts), options)
        blocks.ask_next(block)
        scores = mask(block, scores, layouts.sums)
        weights, shrink, highest, total = update(scores, highest, total)
        weights_tile[...] = weights.astype(weights_tile.dtype)
        mixed = _add_mixed(rescale(mixed, shrink), weights_tile, blocks.values(block), layouts)
        return mixed, highest, total

    return lax.fori_loop(blocks.start, blocks.stop, turn, empty_sums(rows, head_dim, layouts.sums))


@dataclass(frozen=True, slots=True)
class _Layouts:
    """How the operands of a product lie in registers."""

    left: Any
    right: Any
    sums: Any

    @staticmethod
    def of(query_tile: Any) -> _Layouts:
        kinds = (plgpu.Layout.MMA_LHS, plgpu.Layout.MMA_RHS, plgpu.Layout.MMA_ACC)
        row_warps = min(WARPS, query_tile.shape[0] // MMA_ROWS)
        return _Layouts(*(kind(query_tile.dtype, m_warps=row_warps) for kind in kinds))


def _scores(query_tile: Any, keys: Any, layouts: _Layouts) -> jax.Array:
    """query . key [M, block_tokens], a piece of the head size at a time: a whole block of keys overflows registers."""
    shape = (query_tile.shape[0], keys.shape[0])
    scores = plgpu.layout_cast(jnp.zeros(shape, jnp.float32), layouts.sums)
    for piece in _pieces(keys.shape[1]):
        query = plgpu.load(query_tile.at[:, piece], layout=layouts.left)
        scores = plgpu.mma(scores, query, plgpu.load(keys.at[:, piece].T, layout=layouts.right))
    return scores


def _add_mixed(mixed: jax.Array, weights_tile: Any, values: Any, layouts: _Layouts) -> jax.Array:
    """mixed + weights . values [M, D], a piece of the block at a time."""
    for piece in _pieces(values.shape[0]):
        weights = plgpu.load(weights_tile.at[:, piece], layout=layouts.left)
        mixed = plgpu.mma(mixed, weights, plgpu.load(values.at[piece], layout=layouts.right))
    return mixed


def _pieces(size: int) -> list[Any]:
    """Slices of 64, or of 32 where 64 does not divide: both are whole tiles of shared memory."""
    step = 64 if size % 64 == 0 else min(size, 32)
    return [pl.ds(start, step) for start in range(0, size, step)]
