"""Decode for Ampere (sm_80, sm_86): one new token per row over its pages, the keys shared out among splits.

A program of the grid is one row, one key/value head and one split: the head's G queries, padded to the 16 rows of a
tensor-core tile, against the split's blocks of keys.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kernels_pallas.paged_attention.mosaic.ampere_attention import MMA_ROWS, attend_blocks, scratch
from kernels_pallas.paged_attention.mosaic.ampere_blocks import BlockReader
from kernels_pallas.paged_attention.mosaic.common import (
    decode_blocks,
    launch,
    log_sum,
    mask,
    normalised,
    one_run_of_pages,
    store,
)
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig
from kernels_pallas.paged_attention.options import AttentionOptions


def decode(
    queries: jax.Array,  # [R, K, G, D]
    pool: jax.Array,  # [2, K, P, T, D] bfloat16 or float16
    table: jax.Array,  # [R, N] int32, N whole blocks
    length: jax.Array,  # [R] int32, keys seen; 0 for a row without output
    *,
    options: AttentionOptions,
    config: DecodeConfig,
    interpret: Any = None,
) -> tuple[jax.Array, jax.Array]:
    """Attention of each row's last token over its keys, for every split S of them.

    Returns the splits' own normalised attention [R, K, S, G, D] float32 and the log2 of their sums of exp(score)
    [R, K, S, G] float32, zeros and -inf where a split holds no visible key. Raises ValueError for sizes that no tile
    fits.
    """
    rows, kv_heads, group, head_dim = queries.shape
    page_tokens = pool.shape[3]
    if group > MMA_ROWS:
        raise ValueError(f"{group} query heads per key/value head; at most {MMA_ROWS}")
    padded = jnp.pad(queries.astype(pool.dtype), ((0, 0), (0, 0), (0, MMA_ROWS - group), (0, 0)))
    shape = (rows, kv_heads, config.splits, MMA_ROWS)
    out, lse = launch(
        partial(_program, options=options, splits=config.splits, page_tokens=page_tokens),
        padded,
        one_run_of_pages(pool),
        table,
        length,
        name="paged_decode_ampere",
        shapes=((*shape, head_dim), shape),
        grid={"row": rows, "head": kv_heads, "split": config.splits},
        scratch=scratch(MMA_ROWS, pool, config, interpreted=interpret is not None),
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
    weights_tile: Any,
    buffers: Any,
    barriers: Any,
    options: AttentionOptions,
    splits: int,
    page_tokens: int,
) -> None:
    row, head, split = (lax.axis_index(name) for name in ("row", "head", "split"))
    block_tokens = weights_tile.shape[1]
    seen = length[row]
    start, stop = decode_blocks(seen, split, splits=splits, block_tokens=block_tokens, window=options.window)

    def hide(block: jax.Array, scores: jax.Array, layout: Any) -> jax.Array:
        return mask(scores, block, seen - 1, options.window, layout)

    blocks = BlockReader(pool, table, row, head, start, stop, page_tokens, buffers, barriers)
    mixed, highest, total = attend_blocks(queries.at[row, head], blocks, query_tile, weights_tile, options, hide)
    store(out.at[row, head, split], normalised(mixed, total))
    store(lse.at[row, head, split], log_sum(highest, total))
