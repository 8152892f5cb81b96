"""The kernels of each family of GPUs, and the one that runs a spec on a GPU, cut as tuned for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from kernels_pallas.paged_attention.mosaic import (
    ampere_decode,
    ampere_prefill,
    hopper_decode,
    hopper_prefill,
    splits,
    tuning,
)
from kernels_pallas.paged_attention.mosaic.arg_specs import DecodeSpec, PrefillSpec, Spec
from kernels_pallas.paged_attention.mosaic.gpus import Gpu

Program = tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...]]

_DECODE = {"ampere": ampere_decode.decode, "hopper": hopper_decode.decode}
_PREFILL = {"ampere": ampere_prefill.prefill, "hopper": hopper_prefill.prefill}


def decode_kernel(gpu: Gpu) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """The GPU's decode, as in `hopper_decode.decode`."""
    return _DECODE[gpu.family]


def prefill_kernel(gpu: Gpu) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """The GPU's prefill, as in `hopper_prefill.prefill`."""
    return _PREFILL[gpu.family]


def program(spec: Spec, gpu: Gpu) -> Program:
    """A function for jax.jit and the shapes of its arguments. A decode step merges its splits, too."""
    return _decode_program(spec, gpu) if isinstance(spec, DecodeSpec) else _prefill_program(spec, gpu)


def _decode_program(spec: DecodeSpec, gpu: Gpu) -> Program:
    heads = spec.heads
    shape = tuning.Shape(heads.padded_dim, heads.group, spec.page_tokens)
    block_tokens = tuning.decode_config(gpu, shape).block_tokens
    longest = min(spec.context, heads.window or spec.context)
    count = splits.choose_splits(spec.rows, heads.kv_heads, longest, gpu.multiprocessors, block_tokens)
    config = tuning.decode_config(gpu, shape, count)
    kernel = decode_kernel(gpu)

    def decode(queries: jax.Array, pool: jax.Array, table: jax.Array, length: jax.Array) -> jax.Array:
        out, lse = kernel(queries, pool, table, length, options=heads.options, config=config)
        return splits.merge(out, lse, None)

    return decode, spec.arguments(block_tokens)


def _prefill_program(spec: PrefillSpec, gpu: Gpu) -> Program:
    heads = spec.heads
    config = tuning.prefill_config(gpu, tuning.Shape(heads.padded_dim, heads.group, spec.page_tokens))
    kernel = partial(prefill_kernel(gpu), options=heads.options, config=config)
    return kernel, spec.arguments(config.block_tokens)
