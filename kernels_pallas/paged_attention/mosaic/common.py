"""What every Mosaic GPU kernel of paged attention shares: which keys are read and seen, the online softmax, its launch.

Scores are kept in base 2: a score times log2(e), so that exp2, the instruction a GPU has, gives the weight. Nothing
here depends on an architecture or a layout: arrays keep the layout they come with. Shapes are [M, B] for M query rows
against a block of B keys and [M] for one number per query row, all float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.options import AttentionOptions

LOG2E = math.log2(math.e)
MASKED = -1e30  # finite: a row that sees nothing of its first blocks stays free of NaN, and a later key outweighs it
TILE_ROWS = 8  # rows of one swizzled tile of shared memory
_HEAD_DIM_STEP = 32  # elements; smaller steps leave swizzles too narrow for fast copies on either architecture


def padded_head_dim(head_dim: int) -> int:
    """The head size that pools and queries of these kernels are padded to with zeros, e.g. 96 for 80."""
    return -(-head_dim // _HEAD_DIM_STEP) * _HEAD_DIM_STEP


def decode_blocks(
    length: jax.Array, split: jax.Array, *, splits: int, block_tokens: int, window: int | None
) -> tuple[jax.Array, jax.Array]:
    """The blocks [start, stop) that one split of a row with `length` keys reads. Every one holds a visible key."""
    stop = lax.div(length + (block_tokens - 1), block_tokens)
    start = jnp.int32(0)
    if window is not None:
        start = lax.div(jnp.maximum(length - window, 0), block_tokens)
    share = lax.div(stop - start + (splits - 1), splits)
    start = jnp.minimum(start + split * share, stop)
    return start, jnp.minimum(start + share, stop)


def prefill_blocks(
    lowest: jax.Array, highest: jax.Array, *, block_tokens: int, window: int | None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """What the queries at positions `lowest` to `highest`, both included, read.

    Returns start, full_start, full_stop, stop: blocks [start, stop) hold all keys that any of the queries sees, and of
    blocks [full_start, full_stop) every query sees every key, so that they need no mask.
    """
    stop = lax.div(highest, block_tokens) + 1
    full_stop = lax.div(lowest + 1, block_tokens)
    if window is None:
        return jnp.int32(0), jnp.int32(0), full_stop, stop
    start = lax.div(jnp.maximum(lowest - (window - 1), 0), block_tokens)
    full_start = lax.div(jnp.maximum(highest - (window - 1), 0) + (block_tokens - 1), block_tokens)
    full_start = jnp.minimum(full_start, stop)
    return start, full_start, jnp.maximum(full_stop, full_start), stop


def visible(key_positions: jax.Array, query_positions: jax.Array, window: int | None) -> jax.Array:
    """Whether a query sees a key: [M, B] bool. The query positions are [M, B], or a scalar for one query."""
    seen = key_positions <= query_positions
    if window is not None:
        seen &= key_positions > query_positions - window
    return seen


def mask(scores: jax.Array, block: jax.Array, query_positions: jax.Array, window: int | None, layout: Any) -> jax.Array:
    """A block's scores [M, B], MASKED where a query does not see a key. The query positions are as in `visible`."""
    keys = block * scores.shape[1] + plgpu.broadcasted_iota(jnp.int32, scores.shape, 1, layout=layout)
    return jnp.where(visible(keys, query_positions, window), scores, MASKED)


def pair_positions(
    first_position: jax.Array, first_pair: jax.Array, group: int, shape: tuple[int, ...], layout: Any
) -> jax.Array:
    """Positions [M, B] int32 of the queries of M (query, group) pairs; query 0 of the row is at `first_position`."""
    pairs = first_pair + plgpu.broadcasted_iota(jnp.int32, shape, 0, layout=layout)
    return first_position + lax.div(pairs, jnp.full_like(pairs, group))


def base2_scores(products: jax.Array, options: AttentionOptions) -> jax.Array:
    """Scores in base 2 [M, B] from query . key products [M, B].

    The cap is cap * tanh(x) = cap - 2 cap / (1 + exp(2 x)): the GPU's own tanh is good to 11 bits only, which at a cap
    of 50 moves a weight by 2 percent.
    """
    if options.softcap is None:
        return products * (options.scale * LOG2E)
    cap = options.softcap * LOG2E
    return cap - (2.0 * cap) / (1.0 + jnp.exp2(products * (2.0 * LOG2E * options.scale / options.softcap)))


def empty_sums(rows: int, head_dim: int, layout: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The online softmax before any key: weighted values [M, D], each row's highest score and sum of weights [M]."""
    per_row = layout.reduce(1)
    return (
        plgpu.layout_cast(jnp.zeros((rows, head_dim), jnp.float32), layout),
        plgpu.layout_cast(jnp.full((rows,), MASKED, jnp.float32), per_row),
        plgpu.layout_cast(jnp.zeros((rows,), jnp.float32), per_row),
    )


def update(
    scores: jax.Array, highest: jax.Array, total: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """One block of the online softmax (Milakov and Gimelshein 2018).

    Takes base-2 scores [M, B], masked ones MASKED, and each row's highest score and sum of weights so far, MASKED and 0
    at first. Returns the block's weights [M, B], the factor [M] by which older sums shrink, and the new highest and
    total.
    """
    new_highest = jnp.maximum(highest, scores.max(axis=1))
    shrink = jnp.exp2(highest - new_highest)
    weights = jnp.exp2(scores - lax.broadcast_in_dim(new_highest, scores.shape, [0]))
    return weights, shrink, new_highest, total * shrink + weights.sum(axis=1)


def rescale(mixed: jax.Array, factor: jax.Array) -> jax.Array:
    """Multiply each row of `mixed` [M, D] by its `factor` [M]."""
    return mixed * lax.broadcast_in_dim(factor, mixed.shape, [0])


def normalised(mixed: jax.Array, total: jax.Array) -> jax.Array:
    """Attention [M, D] from weighted sums of values [M, D] and sums of weights [M]; zeros where nothing was read."""
    return rescale(mixed, jnp.where(total > 0.0, 1.0 / total, 0.0))


def log_sum(highest: jax.Array, total: jax.Array) -> jax.Array:
    """log2 of the sum of exp2 of a row's scores [M]; -inf where nothing was read."""
    return jnp.where(total > 0.0, highest + jnp.log2(total), -jnp.inf)


def is_run(pages: list[jax.Array]) -> jax.Array:
    """Whether page ids, int32 scalars, follow each other, so that one copy reads them all."""
    run = pages[0] >= 0
    for index, page in enumerate(pages[1:], start=1):
        run &= page == pages[0] + index
    return run


def page_ids(table: Any, row: jax.Array, block: jax.Array, count: int) -> list[jax.Array]:
    """The `count` pages of a row's block, from the table [R, N] in device memory."""
    return [table[row, block * count + index] for index in range(count)]


def copy_pages(pages: list[jax.Array], as_run: Callable[[], None], one_by_one: Callable[[], None]) -> None:
    """Copy pages all at once where they follow each other in the pool."""
    if len(pages) == 1:
        return as_run()
    run = is_run(pages)
    pl.when(run)(as_run)
    pl.when(jnp.logical_not(run))(one_by_one)


def store(target: Any, value: jax.Array) -> None:
    """Store sums to device memory, whose layout's short pieces an ordinary store refuses."""
    if hasattr(plgpu, "store"):
        plgpu.store(target, value, optimized=False)
    else:  # jax 0.11, where ordinary stores accept them
        target[...] = value


def shared_tile(shape: tuple[int, ...], dtype: Any, swizzle: int | None = None) -> Any:
    """Shared memory [..., rows, columns], tiled and swizzled as copies and tensor cores want it.

    `swizzle` is in bytes; None: the widest that the columns allow.
    """
    bits = jnp.dtype(dtype).itemsize * 8
    swizzle = swizzle or plgpu.find_swizzle(shape[-1] * bits)
    tile = plgpu.TilingTransform((TILE_ROWS, 8 * swizzle // bits))  # type: ignore[abstract]
    swizzled = plgpu.SwizzleTransform(swizzle)  # type: ignore[abstract]
    return plgpu.SMEM(shape, dtype, transforms=(tile, swizzled))


def launch(
    program: Callable[..., None],
    *arguments: jax.Array,
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    grid: Mapping[str, int],
    scratch: Mapping[str, Any],
    interpret: Any,
    **threads: Any,
) -> Any:
    """Run a program for every point of the grid; returns its results, float32 of these shapes."""
    kernel = plgpu.kernel(
        program,
        out_type=tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes),
        grid=tuple(grid.values()),
        grid_names=tuple(grid),
        scratch_types=scratch,
        compiler_params=plgpu.CompilerParams(approx_math=True),
        kernel_name=name,
        **threads,
        **({} if interpret is None else {"interpret": interpret}),
    )
    return kernel(*arguments)


def one_run_of_pages(pool: jax.Array) -> jax.Array:
    """A pool [2, K, P, T, D] as [2, K, P * T, D], where pages that follow each other are one piece."""
    return pool.reshape(*pool.shape[:2], -1, pool.shape[4])


def to_pairs(queries: jax.Array, dtype: Any, step: int) -> jax.Array:
    """Queries [R, Q, K, G, D] as pairs [R, K, Q * G, D] in the order of the queries, padded to a multiple of `step`."""
    rows, tokens, kv_heads, group, head_dim = queries.shape
    pairs = queries.astype(dtype).swapaxes(1, 2).reshape(rows, kv_heads, tokens * group, head_dim)
    return jnp.pad(pairs, ((0, 0), (0, 0), (0, -tokens * group % step), (0, 0)))


def from_pairs(results: jax.Array, tokens: int, group: int) -> jax.Array:
    """Results of pairs [R, K, pairs, ...] as those of queries [R, Q, K, G, ...]."""
    rows, kv_heads, _, *rest = results.shape
    return results[:, :, : tokens * group].reshape(rows, kv_heads, tokens, group, *rest).swapaxes(1, 2)
