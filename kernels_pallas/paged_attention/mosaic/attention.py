"""Paged attention by the Mosaic GPU kernels: decode where a row has one new token, ragged prefill where it has more.

Pools keep heads padded to `common.padded_head_dim`. Kernels are chosen and cut when a function is traced, by the GPU
it is traced for; tests name a GPU and let the kernels be interpreted.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kernels_pallas.paged_attention import reference
from kernels_pallas.paged_attention.mosaic import splits, tuning
from kernels_pallas.paged_attention.mosaic.ampere_attention import MMA_ROWS
from kernels_pallas.paged_attention.mosaic.common import padded_head_dim
from kernels_pallas.paged_attention.mosaic.gpus import Gpu
from kernels_pallas.paged_attention.mosaic.programs import decode_kernel, prefill_kernel
from kernels_pallas.paged_attention.mosaic.target import traced_gpu
from kernels_pallas.paged_attention.options import AttentionOptions

PAGE_TOKENS = (16, 32, 64)
DTYPES = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class MosaicAttention:
    """The operations of `api`, on one GPU. Its shapes are those of `api`; D' stands for the padded head size."""

    gpu: Gpu | None = None  # None: whichever a function is traced for
    interpret: Any = None  # plgpu.InterpretGPUParams: run the kernels on the CPU

    def pool_shape(self, pages: int, page_tokens: int, kv_heads: int, head_dim: int) -> tuple[int, ...]:
        """[keys and values, kv_heads, pages, page_tokens, D']: see decision 29 in WORKSPACE.md."""
        return reference.pool_shape(pages, page_tokens, kv_heads, padded_head_dim(head_dim))

    def check(self, page_tokens: int, heads: int, kv_heads: int, head_dim: int, dtype: jnp.dtype) -> None:
        """Raises ValueError for a GPU, or for sizes and types of a pool, that no kernel is for."""
        if dtype.name not in DTYPES:
            raise ValueError(f"mosaic attention keeps keys and values in {' or '.join(DTYPES)}, not in {dtype.name}")
        if page_tokens not in PAGE_TOKENS:
            raise ValueError(f"mosaic attention reads pages of {_listed(PAGE_TOKENS)} tokens, not of {page_tokens}")
        reference.check_heads(heads, kv_heads, head_dim)
        group = heads // kv_heads
        if group > MMA_ROWS:
            raise ValueError(f"mosaic attention takes {MMA_ROWS} query heads per key/value head at most, not {group}")
        shape = tuning.Shape(padded_head_dim(head_dim), group, page_tokens)
        tuning.decode_config(self._gpu(), shape)
        tuning.prefill_config(self._gpu(), shape)

    def write(
        self,
        pool: jax.Array,
        keys: jax.Array,
        values: jax.Array,
        table: jax.Array,
        first: jax.Array,
        count: jax.Array,
    ) -> jax.Array:
        """See `api.write`. Tokens that are not written go nowhere.

        A scatter of XLA's, which makes one launch of it, of RoPE and of what else leads to it. No place is written
        twice and XLA is told so: else each number is stored by a loop of compare-and-swap.
        """
        rows, tokens = keys.shape[:2]
        pages, slots = reference.places(table, first, tokens, pool.shape[3])
        beyond = pool.shape[2] + jnp.arange(rows * tokens, dtype=jnp.int32).reshape(rows, tokens)
        pages = jnp.where(reference.written(table, first, count, tokens, pool.shape[3]), pages, beyond)
        new = reference.storable(_padded(keys, pool.shape[4]), _padded(values, pool.shape[4]), pool.dtype)
        places = pool.at[:, :, pages.reshape(-1), slots.reshape(-1)]
        return places.set(new, mode="drop", unique_indices=True)

    def attend(
        self,
        queries: jax.Array,
        pool: jax.Array,
        table: jax.Array,
        first: jax.Array,
        count: jax.Array,
        options: AttentionOptions,
        sinks: jax.Array | None = None,
    ) -> jax.Array:
        """See `api.attend`. Raises ValueError as `check` does."""
        rows, tokens, heads, head_dim = queries.shape
        kv_heads, page_tokens = pool.shape[1], pool.shape[3]
        self.check(page_tokens, heads, kv_heads, head_dim, pool.dtype)
        grouped = _padded(queries, pool.shape[4]).astype(pool.dtype)
        grouped = grouped.reshape(rows, tokens, kv_heads, heads // kv_heads, -1)
        sinks = None if sinks is None else sinks.astype(jnp.float32).reshape(kv_heads, -1)
        # a function of its own, so that layers that are alike share one kernel: lowering one takes a second
        attention = _decode if tokens == 1 else _prefill
        out = attention(grouped, pool, table, first, count, sinks, options, self._gpu(), self.interpret)
        return out[..., :head_dim].reshape(rows, tokens, heads, head_dim)

    def _gpu(self) -> Gpu:
        return traced_gpu() if self.gpu is None else self.gpu


@partial(jax.jit, static_argnames=("options", "gpu", "interpret"))
def _decode(
    queries: jax.Array,  # [R, 1, K, G, D'] of the pool's dtype
    pool: jax.Array,
    table: jax.Array,
    first: jax.Array,
    count: jax.Array,
    sinks: jax.Array | None,  # [K, G] float32
    options: AttentionOptions,
    gpu: Gpu,
    interpret: Any,
) -> jax.Array:
    """[R, K, G, D'] float32."""
    rows, _, kv_heads, _, _ = queries.shape
    shape = _shape(queries, pool)
    block_tokens = tuning.decode_config(gpu, shape).block_tokens
    longest = min(table.shape[1] * shape.page_tokens, options.window or sys.maxsize)
    count_of_splits = splits.choose_splits(rows, kv_heads, longest, gpu.multiprocessors, block_tokens)
    config = tuning.decode_config(gpu, shape, count_of_splits)
    length = jnp.where(count > 0, first + count, 0)
    table = _whole_blocks(table, block_tokens // shape.page_tokens)
    kernel = decode_kernel(gpu)
    out, lse = kernel(queries[:, 0], pool, table, length, options=options, config=config, interpret=interpret)
    return splits.merge(out, lse, sinks)


@partial(jax.jit, static_argnames=("options", "gpu", "interpret"))
def _prefill(
    queries: jax.Array,  # [R, Q, K, G, D'] of the pool's dtype
    pool: jax.Array,
    table: jax.Array,
    first: jax.Array,
    count: jax.Array,
    sinks: jax.Array | None,  # [K, G] float32
    options: AttentionOptions,
    gpu: Gpu,
    interpret: Any,
) -> jax.Array:
    """[R, Q, K, G, D'] float32."""
    shape = _shape(queries, pool)
    config = tuning.prefill_config(gpu, shape)
    table = _whole_blocks(table, config.block_tokens // shape.page_tokens)
    kernel = prefill_kernel(gpu)
    out, lse = kernel(queries, pool, table, first, count, options=options, config=config, interpret=interpret)
    if sinks is None:
        return out
    return splits.merge(out[..., None, :, :], lse[..., None, :], sinks)  # one split, and the sinks beside it


def _shape(queries: jax.Array, pool: jax.Array) -> tuning.Shape:
    return tuning.Shape(pool.shape[4], queries.shape[-2], pool.shape[3])


def _padded(heads: jax.Array, head_dim: int) -> jax.Array:
    """[..., D] with zeros up to [..., D']: they add nothing to a product, and what they give is cut off."""
    missing = head_dim - heads.shape[-1]
    return heads if missing == 0 else jnp.pad(heads, [(0, 0)] * (heads.ndim - 1) + [(0, missing)])


def _whole_blocks(table: jax.Array, block_pages: int) -> jax.Array:
    """The table with page 0, which nobody sees, up to a whole number of blocks."""
    return jnp.pad(table, ((0, 0), (0, -table.shape[1] % block_pages)))


def _listed(numbers: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} or {numbers[-1]}"
