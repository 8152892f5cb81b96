"""How kernels are cut on each GPU: rows that were looked into, and a rule for shapes without a row.

The rule is about what a device-less compile shows, registers and shared memory: a cut that spills or that does not fit
is slow everywhere. Rows are for shapes where another cut than the rule's is known to be better.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from kernels_pallas.paged_attention.mosaic.gpus import Gpu

BYTES = 2  # of a number of the pool
SCRATCH_BYTES = 2048  # of shared memory, which every kernel has for sums over warps
HOPPER_COLUMNS = 256  # of one product, the numbers of a head
AMPERE_BLOCK = 32  # keys of the smallest block: four warps share out the copy and the product of one


class Shape(NamedTuple):
    """What of a model and its pool decides the cut."""

    head_dim: int  # padded
    group: int
    page_tokens: int


DECODE: Mapping[str, Mapping[Shape, DecodeConfig]] = MappingProxyType({})
PREFILL: Mapping[str, Mapping[Shape, PrefillConfig]] = MappingProxyType({})


def decode_config(gpu: Gpu, shape: Shape, splits: int = 1) -> DecodeConfig:
    """The cut of a decode step, for a number of splits from `splits.choose_splits`.

    Raises ValueError where pages are too large for the GPU's shared memory, or heads for its products.
    """
    row = DECODE.get(gpu.name, {}).get(shape) or _decode_rule(gpu, shape)
    return DecodeConfig(splits, row.block_tokens, row.stages)


def prefill_config(gpu: Gpu, shape: Shape) -> PrefillConfig:
    """The cut of a prefill step. Raises ValueError as `decode_config` does."""
    return PREFILL.get(gpu.name, {}).get(shape) or _prefill_rule(gpu, shape)


def _decode_rule(gpu: Gpu, shape: Shape) -> DecodeConfig:
    """Blocks of 64 keys and as many stages as leave room for a second program on the multiprocessor, but two at least.

    More than a few stages bring nothing: two blocks on their way are more bytes than memory delivers in its latency.
    """
    hopper = gpu.family == "hopper"
    rows, most = (64, 4) if hopper else (16, 3)
    result_bytes = rows * shape.head_dim * 4 if hopper else 0  # on its way out it passes through shared memory
    block_tokens = _largest_block(64, rows, result_bytes, gpu, shape)
    room = gpu.shared_bytes // 2 - _tile_bytes(rows, block_tokens, gpu, shape) - result_bytes
    return DecodeConfig(1, block_tokens, min(max(room // _block_bytes(block_tokens, shape), 2), most))


def _prefill_rule(gpu: Gpu, shape: Shape) -> PrefillConfig:
    """Two stages; tiles and blocks as large as registers allow without spilling, blocks of a page at least."""
    if gpu.family == "hopper":
        rows, warpgroups, wanted = 64, 2, 128 if shape.head_dim <= 128 else 64
    else:
        rows, warpgroups, wanted = 64 if shape.head_dim <= 128 else 32, 1, 64 if shape.head_dim <= 64 else 32
    wanted = max(wanted, shape.page_tokens)
    return PrefillConfig(rows, _largest_block(wanted, rows * warpgroups, 0, gpu, shape), 2)


def _largest_block(wanted: int, rows: int, other_bytes: int, gpu: Gpu, shape: Shape) -> int:
    """Keys of a block, `wanted` or as many as fit twice beside a tile of `rows` queries and `other_bytes`."""
    hopper = gpu.family == "hopper"
    if hopper and shape.head_dim > HOPPER_COLUMNS:
        raise ValueError(f"heads of {shape.head_dim} numbers; {gpu.device_kind} multiplies {HOPPER_COLUMNS} at most")
    block_tokens, smallest = wanted, max(shape.page_tokens, 0 if hopper else AMPERE_BLOCK)
    room = gpu.shared_bytes - other_bytes - SCRATCH_BYTES
    while 2 * _block_bytes(block_tokens, shape) + _tile_bytes(rows, block_tokens, gpu, shape) > room:
        block_tokens //= 2
        if block_tokens < smallest:
            raise ValueError(
                f"two blocks of {smallest} tokens of {shape.head_dim} numbers do not fit the shared memory"
                f" of {gpu.device_kind}, {gpu.shared_bytes} bytes"
            )
    return block_tokens


def _tile_bytes(rows: int, block_tokens: int, gpu: Gpu, shape: Shape) -> int:
    """Shared memory of a tile of queries and its weights for a block, which on Hopper stay in registers."""
    weights = 0 if gpu.family == "hopper" else block_tokens
    return rows * (shape.head_dim + weights) * BYTES


def _block_bytes(block_tokens: int, shape: Shape) -> int:
    """Shared memory of a block's keys and values."""
    return 2 * block_tokens * shape.head_dim * BYTES
