"""What a simulation needs to know of a machine with a model, by name or from a file of `andes-jax profile`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from andes_jax.failure import UsageError
from andes_jax.scheduling.step_time import StepTimes
from andes_jax.simulation.fitted import FittedTimes, read_profile_file
from andes_jax.simulation.hardware import CHIPS, MODELS
from andes_jax.simulation.roofline import RooflineTimes, kv_capacity

GPU_PAGE_TOKENS = 16
GPU_HOST_S = 1e-3  # the engine's Python takes about 10 µs a sequence and step (tests/bench/host_time)
DEFAULT_MODEL = "llama-3-8b"


class MachineTimes(StepTimes, Protocol):
    """Step times of a machine, of one step or of many like it at once."""

    def decode_seconds(self, decodes: int, contexts: np.ndarray) -> np.ndarray:
        """Seconds [k] of k steps of nothing but `decodes` decodes each, with these summed contexts [k]."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """How fast a machine computes, and how much it holds."""

    name: str
    times: MachineTimes
    kv_tokens: int  # whose keys and values fit the cache
    page_tokens: int
    max_sequences: int
    max_model_len: int  # tokens of prompt and reply
    step_tokens: int
    prefill_chunk: int
    copy_page_s: float  # seconds to copy a page between device and host; `times` count them as well
    host_s: float  # of the host's own work for a step; it shows where steps are shorter

    @property
    def pages(self) -> int:
        """Pages of the cache, without the scratch page."""
        return self.kv_tokens // self.page_tokens


def load_profile(name: str | Path, kv_tokens: int | None = None) -> Profile:
    """A profile by name, CHIP or CHIP:MODEL such as h200:llama-3-8b, or of a file that `andes-jax profile` wrote.

    `kv_tokens` replaces the size of the cache. Raises UsageError for names that do not exist, for models that do not
    fit their chip and for caches that hold no page, ProfileFileError for files that are no profile.
    """
    path = Path(name)
    profile = _from_file(path) if path.suffix == ".json" or path.is_file() else _named(str(name).lower())
    if kv_tokens is not None:
        profile = replace(profile, kv_tokens=kv_tokens)
    if profile.pages < 1:
        raise UsageError(f"{profile.kv_tokens} tokens of cache hold no page of {profile.page_tokens}")
    return profile


def _from_file(path: Path) -> Profile:
    file = read_profile_file(path)
    return Profile(
        name=file.name,
        times=FittedTimes(file.costs),
        kv_tokens=file.kv_tokens,
        page_tokens=file.page_tokens,
        max_sequences=file.max_sequences,
        max_model_len=file.max_model_len,
        step_tokens=file.step_tokens,
        prefill_chunk=file.prefill_chunk,
        copy_page_s=file.costs.copy_page_s,
        host_s=file.host_s,
    )


def _named(name: str) -> Profile:
    chip_name, _, model_name = name.partition(":")
    chip, model = CHIPS.get(chip_name), MODELS.get(model_name or DEFAULT_MODEL)
    if chip is None or model is None:
        raise UsageError(
            f"no profile {name!r}: give CHIP:MODEL with a chip of {', '.join(CHIPS)} and a model of "
            f"{', '.join(MODELS)}, or a file that andes-jax profile wrote"
        )
    kv_tokens = kv_capacity(chip, model)
    if kv_tokens < 1:
        raise UsageError(f"the weights of {model_name} leave no room for a cache on {chip_name}")
    times = RooflineTimes(chip, model, GPU_PAGE_TOKENS)
    return Profile(
        name=f"{chip_name}:{model_name or DEFAULT_MODEL}",
        times=times,
        kv_tokens=kv_tokens,
        page_tokens=GPU_PAGE_TOKENS,
        max_sequences=chip.max_sequences,
        max_model_len=model.max_position,
        step_tokens=chip.step_tokens,
        prefill_chunk=chip.step_tokens,
        copy_page_s=times.copy_page_s,
        host_s=GPU_HOST_S,
    )
