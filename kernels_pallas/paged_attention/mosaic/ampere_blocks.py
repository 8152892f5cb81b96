"""Blocks of pages on their way into shared memory, on Ampere: cp.async copies, counted in groups.

A block is `block_tokens` tokens of one key/value head, keys and values. Every block counts the same number of groups,
copied or not, because the wait for one is "all but the n youngest groups have arrived" with n fixed at compile time.

The interpreter on the CPU has neither cp.async groups nor empty ones: there each copy arrives at a barrier instead.
No other module knows that difference; it is what `barriers`, empty on a GPU, stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxlib.mlir.dialects import nvvm

from kernels_pallas.paged_attention.mosaic.common import TILE_ROWS, copy_pages, padded_head_dim, page_ids
from kernels_pallas.paged_attention.mosaic.common import shared_tile as swizzled_tile

COPY_TILES = 4  # one cp.async transfer covers a multiple of so many tiles, one per warp
NARROWEST_SWIZZLE = 32  # bytes
BLOCK_STEP = 32  # tokens: what four warps of one tensor-core instruction each share out


def shared_tile(shape: tuple[int, ...], dtype: jnp.dtype, copy_rows: int | None = None) -> Any:
    """Shared memory [..., rows, D], tiled and swizzled for the tensor cores, for copies of `copy_rows` rows, if any.

    Raises ValueError where no swizzle lets four warps share such a copy.
    """
    bits = jnp.dtype(dtype).itemsize * 8
    swizzle = plgpu.find_swizzle(shape[-1] * bits)
    while copy_rows is not None and (copy_rows // TILE_ROWS) * (shape[-1] * bits // (8 * swizzle)) % COPY_TILES:
        swizzle //= 2
        if swizzle < NARROWEST_SWIZZLE:
            raise ValueError(f"four warps cannot share a copy of {copy_rows} rows of {shape[-1]} {dtype}")
    return swizzled_tile(shape, dtype, swizzle)


def block_buffers(pool: jax.Array, block_tokens: int, stages: int, *, interpreted: bool) -> dict[str, Any]:
    """Shared memory for `stages` blocks of a pool [2, K, P, T, D], keys and values, and the interpreter's barriers.

    Raises ValueError for blocks that cannot be read.
    """
    page_tokens, head_dim = pool.shape[3:]
    if block_tokens % page_tokens or block_tokens % BLOCK_STEP or padded_head_dim(head_dim) != head_dim:
        raise ValueError(f"blocks of {block_tokens} tokens, pages of {page_tokens}, head size {head_dim} do not fit")
    if stages < 2:
        raise ValueError(f"{stages} stages; one block is read while the next is on its way")
    tile = shared_tile((stages, block_tokens, head_dim), pool.dtype, copy_rows=page_tokens)
    arrived = plgpu.Barrier(num_arrivals=block_tokens // page_tokens, num_barriers=stages)
    return {"buffers": (tile, tile), "barriers": (arrived, arrived, plgpu.Barrier()) if interpreted else ()}


def copy_and_wait(source: Any, target: Any, barriers: tuple[Any, ...]) -> None:
    """Copy a tile of device memory to shared memory before any block is asked for, and wait for it."""
    _copy(source, target, barriers[2] if barriers else None)
    if barriers:
        plgpu.barrier_wait(barriers[2])
        plgpu.commit_smem()
    else:
        plgpu.wait_gmem_to_smem(0)


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads blocks [start, stop) of one sequence's keys and values, `stages` - 1 blocks ahead."""

    pool: Any  # [2, K, P * T, D] in device memory
    table: Any  # [R, N] int32 in device memory
    row: jax.Array
    head: jax.Array
    start: jax.Array
    stop: jax.Array
    page_tokens: int
    buffers: tuple[Any, Any]  # keys and values, [stages, block_tokens, D] in shared memory
    barriers: tuple[Any, ...]  # of `block_buffers`

    def begin(self) -> None:
        """Ask for the first blocks."""
        for ahead in range(self._stages - 1):
            self._ask(self.start + ahead)

    def keys(self, block: jax.Array) -> Any:
        """The block's keys [block_tokens, D], once they are there. For every block in turn, before `values`."""
        return self._wait(0, block, (2 * (self._stages - 1) - 1) * self._pages)

    def ask_next(self, block: jax.Array) -> None:
        """Ask for the block that takes the place of the one before `block`. Between `keys` and `values`."""
        self._ask(block + (self._stages - 1))

    def values(self, block: jax.Array) -> Any:
        """The block's values [block_tokens, D], once they are there; what was stored before is visible, too."""
        return self._wait(1, block, 2 * (self._stages - 1) * self._pages)

    @property
    def _stages(self) -> int:
        return self.buffers[0].shape[0]

    @property
    def _pages(self) -> int:
        return self.buffers[0].shape[1] // self.page_tokens

    def _slot(self, block: jax.Array) -> jax.Array:
        return lax.rem(block - self.start, self._stages)

    def _ask(self, block: jax.Array) -> None:
        wanted = block < self.stop
        pl.when(wanted)(lambda: self._copy_block(block))
        pl.when(jnp.logical_not(wanted))(lambda: self._skip(2 * self._pages, None))

    def _copy_block(self, block: jax.Array) -> None:
        pages = page_ids(self.table, self.row, block, self._pages)
        copy_pages(pages, lambda: self._copy_run(block, pages[0]), lambda: self._copy_pages(block, pages))

    def _copy_run(self, block: jax.Array, page: jax.Array) -> None:
        slot = self._slot(block)
        rows = pl.ds(page * self.page_tokens, self._pages * self.page_tokens)
        for which, buffer in enumerate(self.buffers):
            barrier = self._barrier(which, slot)
            _copy(self.pool.at[which, self.head, rows], buffer.at[slot], barrier)
            self._skip(self._pages - 1, barrier)

    def _copy_pages(self, block: jax.Array, pages: list[jax.Array]) -> None:
        slot = self._slot(block)
        for which, buffer in enumerate(self.buffers):
            for index, page in enumerate(pages):
                source = self.pool.at[which, self.head, pl.ds(page * self.page_tokens, self.page_tokens)]
                target = buffer.at[slot, pl.ds(index * self.page_tokens, self.page_tokens)]
                _copy(source, target, self._barrier(which, slot))

    def _barrier(self, which: int, slot: jax.Array) -> Any:
        return self.barriers[which].at[slot] if self.barriers else None

    def _skip(self, groups: int, barrier: Any) -> None:
        """Count groups that copy nothing."""
        if not self.barriers:
            for _ in range(groups):
                _empty_group()
        elif barrier is not None:
            for _ in range(groups):
                plgpu.barrier_arrive(barrier)

    def _wait(self, which: int, block: jax.Array, younger_groups: int) -> Any:
        slot = self._slot(block)
        if self.barriers:
            plgpu.barrier_wait(self.barriers[which].at[slot])
            plgpu.commit_smem()  # stands for the barrier of all threads in which the other wait ends
        else:
            plgpu.wait_gmem_to_smem(younger_groups)
        return self.buffers[which].at[slot]


def _copy(source: Any, target: Any, barrier: Any) -> None:
    if barrier is None:
        plgpu.copy_gmem_to_smem(source, target, oob_mode=plgpu.OOBFillMode.PROMISE_IN_BOUNDS)
    else:
        plgpu.copy_gmem_to_smem(source, target, barrier)


@plgpu.inline_mgpu()
def _empty_group(_: Any) -> None:
    nvvm.cp_async_commit_group()
