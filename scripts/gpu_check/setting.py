"""What a check runs on: the device, the specs, and how much of everything. A rehearsal has little of all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS, DecodeSpec, PrefillSpec, Spec
from kernels_pallas.paged_attention.mosaic.gpus import GPUS, Gpu
from kernels_pallas.paged_attention.mosaic.target import gpu_of
from scripts.gpu_check import timing

REHEARSED = (DecodeSpec("smollm2-135m", 2, 128, 16), PrefillSpec("smollm2-135m", 1, 24, 64, 16))


@dataclass(frozen=True, slots=True)
class Setting:
    """Fixed for a run."""

    gpu: Gpu  # whose cuts are used; in a rehearsal one that is not there
    specs: tuple[Spec, ...]
    rehearsal: bool
    limits: Mapping[str, float]  # what was measured of the device, see limits.py; empty before

    @property
    def families(self) -> tuple[str, ...]:
        """Which kernels run: Ampere's do on a Hopper, too."""
        return ("hopper", "ampere") if self.gpu.family == "hopper" else ("ampere",)

    @property
    def interpret(self) -> Any:
        """None where kernels run on the device."""
        return plgpu.InterpretGPUParams() if self.rehearsal else None

    def scaled(self, full: int, rehearsed: int) -> int:
        """A size, by whether this is a rehearsal."""
        return rehearsed if self.rehearsal else full

    def seconds(self, turn: Callable[..., Any], carry: Any, *arguments: Any, expected_s: float) -> float:
        """`timing.seconds`, with as many turns as make a measurement; a rehearsal measures nothing and has two."""
        if self.rehearsal:
            return timing.seconds(turn, carry, *arguments, turns=2, repeats=1)
        return timing.seconds(turn, carry, *arguments, turns=timing.calls(expected_s))

    def share(self, limit: str, rate: float) -> float | None:
        """A rate over a measured limit; None where that was not measured."""
        return rate / self.limits[limit] if self.limits.get(limit) else None


def setting(results: Path, *, rehearsal: bool) -> Setting:
    """The setting of this machine, with the limits of the results so far. Raises ValueError without a fit GPU."""
    limits = measured_limits(results)
    if rehearsal:
        import tests.kernels.mosaic.interpret_mma  # noqa: F401 - adds what the interpreter lacks for Ampere

        return Setting(GPUS["h100"], REHEARSED, True, limits)
    return Setting(gpu_of(jax.devices()[0]), distinct(tuple(SPECS.values())), False, limits)


def as_ampere(gpu: Gpu) -> Gpu:
    """The same device, cut and lowered as an A100: what runs Ampere's kernels on a Hopper."""
    return dataclasses.replace(GPUS["a100"], multiprocessors=gpu.multiprocessors)


def distinct(specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Specs whose kernels differ: models may share their heads."""
    found: dict[Any, Spec] = {}
    for spec in specs:
        found.setdefault((spec.heads, dataclasses.replace(spec, model="")), spec)
    return tuple(found.values())


def measured_limits(results: Path) -> Mapping[str, float]:
    """The limits that a file of results has, name -> number."""
    if not results.exists():
        return {}
    parts = json.loads(results.read_text(encoding="utf-8")).get("parts", {})
    found: dict[str, float] = {}
    for values in parts.get("limits", {}).values():
        found |= {name: value for name, value in values.items() if isinstance(value, float)}
    return found
