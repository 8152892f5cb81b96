"""The kernels as functions of a spec's arguments, for any family and any cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import jax

from kernels_pallas.paged_attention.mosaic import (
    ampere_decode,
    ampere_prefill,
    hopper_decode,
    hopper_prefill,
    splits,
    tuning,
)
from kernels_pallas.paged_attention.mosaic.arg_specs import DecodeSpec, Spec
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from kernels_pallas.paged_attention.mosaic.gpus import Gpu
from scripts.gpu_check.setting import Setting, as_ampere

DECODE = {"ampere": ampere_decode.decode, "hopper": hopper_decode.decode}
PREFILL = {"ampere": ampere_prefill.prefill, "hopper": hopper_prefill.prefill}


def shape_of(spec: Spec) -> tuning.Shape:
    """What of a spec the tables of cuts go by."""
    return tuning.Shape(spec.heads.padded_dim, spec.heads.group, spec.page_tokens)


def tuned(spec: Spec, gpu: Gpu) -> DecodeConfig | PrefillConfig:
    """The cut that the spec gets on the GPU, splits included. Raises ValueError where no cut fits."""
    if not isinstance(spec, DecodeSpec):
        return tuning.prefill_config(gpu, shape_of(spec))
    row = tuning.decode_config(gpu, shape_of(spec))
    count = splits.choose_splits(spec.rows, spec.heads.kv_heads, keys_read(spec), gpu.multiprocessors, row.block_tokens)
    return tuning.decode_config(gpu, shape_of(spec), count)


def keys_read(spec: Spec) -> int:
    """The keys that a row's last query sees."""
    return min(spec.context, spec.heads.window or spec.context)


def kernel(spec: Spec, family: str, config: Any, setting: Setting) -> Callable[..., jax.Array]:
    """Attention [.., K, G, D'] float32 from a spec's arguments, splits merged."""
    options, interpret = spec.heads.options, setting.interpret

    def decode(*arguments: jax.Array) -> jax.Array:
        out, lse = DECODE[family](*arguments, options=options, config=config, interpret=interpret)
        return splits.merge(out, lse, None)

    def prefill(*arguments: jax.Array) -> jax.Array:
        return PREFILL[family](*arguments, options=options, config=config, interpret=interpret)[0]

    return decode if isinstance(spec, DecodeSpec) else prefill


def cut_as(family: str, setting: Setting) -> Gpu:
    """The GPU whose cuts a family's kernels get here."""
    return setting.gpu if family == setting.gpu.family else as_ampere(setting.gpu)


@contextmanager
def lowered_as(family: str, setting: Setting) -> Iterator[None]:
    """Within it, kernels are lowered for the family, whatever the device: Mosaic is told another architecture."""
    if setting.rehearsal or family == setting.gpu.family:
        yield
        return
    with mock.patch("jax.experimental.mosaic.gpu.utils._infer_arch", lambda: (8, 0)):
        yield
