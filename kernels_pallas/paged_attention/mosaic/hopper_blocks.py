"""Blocks of pages in shared memory on Hopper: copied by the TMA unit, multiplied by the tensor cores (wgmma).

A block is `block_tokens` tokens of one key/value head, keys or values. One barrier per buffer counts a block's pages,
whether they come as one copy or as one each.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic import common

PRODUCT_ROWS = 64  # rows of one product of a warpgroup
ACCUMULATOR = plgpu.Layout.WGMMA


def check_shapes(pool: jax.Array, table: jax.Array, block_tokens: int) -> None:
    """Raises ValueError for a pool [2, K, P, T, D'] and a table [R, N] that blocks of so many tokens cannot read."""
    page_tokens, head_dim = pool.shape[3:]
    if page_tokens % common.TILE_ROWS or block_tokens % page_tokens:
        raise ValueError(f"blocks of {block_tokens} tokens, pages of {page_tokens}: not whole pages of whole tiles")
    if table.shape[1] % (block_tokens // page_tokens):
        raise ValueError(f"a table of {table.shape[1]} pages is not whole blocks of {block_tokens // page_tokens}")
    if common.padded_head_dim(head_dim) != head_dim:
        raise ValueError(f"head size {head_dim} is not padded to {common.padded_head_dim(head_dim)}")


def copy_block(
    pool: Any,  # [K, P * T, D'] in device memory: keys or values
    pages: list[jax.Array],
    head: jax.Array,
    buffer: Any,  # [block_tokens, D'] in shared memory
    arrived: Any,  # barrier of len(pages) arrivals
) -> None:
    """Start copying a block's pages: all at once where they follow each other in the pool."""
    page_tokens = buffer.shape[0] // len(pages)

    def as_run() -> None:
        source = pool.at[head, pl.ds(pages[0] * page_tokens, len(pages) * page_tokens)]
        plgpu.copy_gmem_to_smem(source, buffer, arrived)
        for _ in pages[1:]:
            plgpu.barrier_arrive(arrived)

    def one_by_one() -> None:
        for index, page in enumerate(pages):
            source = pool.at[head, pl.ds(page * page_tokens, page_tokens)]
            plgpu.copy_gmem_to_smem(source, buffer.at[pl.ds(index * page_tokens, page_tokens)], arrived)

    common.copy_pages(pages, as_run, one_by_one)


def products(queries: Any, keys: Any) -> jax.Array:
    """query . key [M, B] float32 for tiles [M, D'] and [B, D'] in shared memory, both read when this returns."""

    def multiply(accumulator: Any) -> jax.Array:
        plgpu.wgmma(accumulator, queries, keys.T)
        return accumulator[...]

    return pl.run_scoped(multiply, plgpu.ACC((queries.shape[0], keys.shape[0]), jnp.float32))


def stage_weights(weights: jax.Array, tile: Any) -> Any:
    """The weights [M, B] as an operand: registers on a GPU; `tile` for the interpreter, which has no such products."""
    if tile is None:
        return weights
    tile[...] = weights
    plgpu.commit_smem()
    return tile


def add_weighted(mixed: jax.Array, weights: Any, values: Any, *, interpreted: bool) -> jax.Array:
    """`mixed` [M, D'] float32 plus weights [M, B] times values [B, D'], which are read when this returns."""
    if interpreted:  # it has no accumulators that start from a value

        def multiply(accumulator: Any) -> jax.Array:
            plgpu.wgmma(accumulator, weights, values)
            return accumulator[...]

        return mixed + pl.run_scoped(multiply, plgpu.ACC((mixed.shape[0], mixed.shape[1]), jnp.float32))

    def multiply_and_add(accumulator: Any) -> None:
        plgpu.wgmma(accumulator, weights, values)

    return pl.run_state(multiply_and_add)(plgpu.ACC.init(mixed))
