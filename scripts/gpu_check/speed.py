"""How fast the kernels are: bytes/s of decode and operations/s of prefill, over what was measured of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from kernels_pallas.paged_attention.mosaic.arg_specs import DecodeSpec, PrefillSpec, Spec
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from scripts.gpu_check.inputs import make_inputs
from scripts.gpu_check.kernels import cut_as, kernel, keys_read, lowered_as, tuned
from scripts.gpu_check.limits import EXPECTED_BYTES_PER_S, EXPECTED_FLOPS
from scripts.gpu_check.setting import Setting

CACHE_BYTES = 128 << 20  # fewer than twice the largest second-level cache here: a repeated call may find them there
Items = dict[str, Callable[[], dict[str, Any]]]


def decode_items(setting: Setting) -> Items:
    """Decode of every spec as cut by the rule, over scattered pages and runs, then by other kernels that run here."""
    family, *others = setting.families
    specs = [spec for spec in setting.specs if isinstance(spec, DecodeSpec)]
    found: Items = {}
    for pages in ("scattered", "runs"):
        found |= {f"{family} {spec.name} {pages}": _timed(spec, family, setting, pages) for spec in specs}
    for other in others:
        found |= {f"{other} {spec.name} scattered": _timed(spec, other, setting) for spec in specs}
    return found


def prefill_items(setting: Setting) -> Items:
    """Prefill of every spec as cut by the rule, then by other kernels that run here."""
    specs = [spec for spec in setting.specs if isinstance(spec, PrefillSpec)]
    return {f"{family} {spec.name}": _timed(spec, family, setting) for family in setting.families for spec in specs}


def tuning_items(setting: Setting) -> Items:
    """Other cuts of every spec: what the tables of tuning.py may be filled with."""
    family = setting.families[0]
    found: Items = {}
    for spec in setting.specs:
        for config in other_cuts(tuned(spec, cut_as(family, setting)), spec):
            name = f"{family} {spec.name} {config_name(config)}"
            found[name] = partial(measure, spec, family, config, setting)
    return found


def other_cuts(config: DecodeConfig | PrefillConfig, spec: Spec) -> Iterator[DecodeConfig | PrefillConfig]:
    """Cuts around the rule's: half and twice the splits, a stage more or less, blocks half and twice as long."""
    if isinstance(config, DecodeConfig):
        yield replace(config, splits=2 * config.splits)
        if config.splits > 1:
            yield replace(config, splits=config.splits // 2)
    yield replace(config, stages=config.stages + 1)
    if config.stages > 2:
        yield replace(config, stages=config.stages - 1)
    for block_tokens in (2 * config.block_tokens, config.block_tokens // 2):
        if block_tokens % spec.page_tokens == 0 and block_tokens >= 32:
            yield replace(config, block_tokens=block_tokens, stages=2)


def config_name(config: DecodeConfig | PrefillConfig) -> str:
    """A cut in few words."""
    first = f"splits{config.splits}" if isinstance(config, DecodeConfig) else f"queries{config.block_queries}"
    return f"{first}-block{config.block_tokens}-stages{config.stages}"


def _timed(spec: Spec, family: str, setting: Setting, pages: str = "scattered") -> Callable[[], dict[str, Any]]:
    def timed() -> dict[str, Any]:
        return measure(spec, family, tuned(spec, cut_as(family, setting)), setting, pages)

    return timed


def measure(
    spec: Spec, family: str, config: DecodeConfig | PrefillConfig, setting: Setting, pages: str = "scattered"
) -> dict[str, Any]:
    """Seconds of a kernel over rows as long as the spec allows, and the rate that this is."""
    inputs = make_inputs(spec, config.block_tokens, ragged=False, pages=pages)
    run = kernel(spec, family, config, setting)

    def turn(queries: jax.Array, *rest: jax.Array) -> jax.Array:
        return run(queries, *rest).astype(queries.dtype)

    with lowered_as(family, setting):
        taken = setting.seconds(turn, *inputs.arguments, expected_s=expected_s(spec))
    found = {"seconds": taken, "spec": spec.name, "config": repr(config), "pages": pages}
    return found | rate(spec, taken, setting)


def rate(spec: Spec, taken: float, setting: Setting) -> dict[str, Any]:
    """What so many seconds are: bytes/s of keys and values, or operations/s, and the share of the device's."""
    if isinstance(spec, DecodeSpec):
        achieved = kv_bytes(spec) / taken
        shares = {f"of_{name}": setting.share(f"{name}_bytes_per_s", achieved) for name in ("copy", "read")}
        return {"bytes_per_s": achieved, "maybe_cached": kv_bytes(spec) < CACHE_BYTES, **shares}
    achieved = operations(spec) / taken
    return {"flops": achieved, "of_matmul": setting.share("matmul_flops", achieved)}


def expected_s(spec: Spec) -> float:
    """A guess, to choose how often a call is repeated."""
    if isinstance(spec, DecodeSpec):
        return 1e-5 + kv_bytes(spec) / EXPECTED_BYTES_PER_S
    return 2e-5 + operations(spec) / EXPECTED_FLOPS


def kv_bytes(spec: DecodeSpec) -> int:
    """Keys and values that a decode step must read, padding of heads included, for rows of full length."""
    numbers = 2 * spec.rows * spec.heads.kv_heads * keys_read(spec) * spec.heads.padded_dim
    return numbers * np.dtype(jax.numpy.dtype(spec.dtype)).itemsize


def operations(spec: PrefillSpec) -> int:
    """Multiplications and additions of both products, visible pairs of query and key alone, for rows of full length."""
    positions = np.arange(spec.context - spec.chunk, spec.context)
    pairs = int(np.minimum(positions + 1, spec.heads.window or spec.context).sum())
    return 4 * spec.rows * spec.heads.heads * spec.heads.head_dim * pairs
