"""What the device is and what suits it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp

from andes_jax.failure import UserError

CPU_PAGE_TOKENS = 64  # gathering pages of 16 tokens costs XLA 30 % of a decode step
GPU_PAGE_TOKENS = 16
CPU_POOL_SHARE = 0.125  # of the machine's memory, where the pool's size is not set
GPU_POOL_SHARE = 0.85  # of what is free after the weights


class DeviceError(UserError):
    """JAX has no device to compute on: one line with the reason and a way out."""


@dataclass(frozen=True, slots=True)
class Device:
    """The device JAX computes on."""

    platform: str  # "cpu" or "cuda"
    kind: str  # as its maker calls it
    memory_bytes: int  # of the whole device
    free_bytes: int

    @property
    def page_tokens(self) -> int:
        return CPU_PAGE_TOKENS if self.platform == "cpu" else GPU_PAGE_TOKENS

    def pool_budget(self, weight_bytes: int) -> int:
        """Bytes the key-value pool may take where nobody said, before weights of `weight_bytes` are loaded."""
        if self.platform == "cpu":
            return int(min(self.memory_bytes * CPU_POOL_SHARE, self.free_bytes * 0.5))
        return int(max(0, self.free_bytes - weight_bytes) * GPU_POOL_SHARE)

    def dtype(self, name: str) -> jnp.dtype:
        """The dtype a setting names; auto is what the device multiplies fastest."""
        if name == "auto":
            name = "float32" if self.platform == "cpu" and not has_bfloat16_products() else "bfloat16"
        return jnp.dtype(name)


def current_device() -> Device:
    """The first device of JAX's default backend. Raises DeviceError where that backend cannot start."""
    try:
        device = jax.devices()[0]
    except Exception as error:  # RuntimeError, but also AssertionError where no backend of the wanted name was built in
        wanted = f" (JAX_PLATFORMS={jax.config.jax_platforms})" if jax.config.jax_platforms else ""
        reason = f": {str(error).splitlines()[0]}" if str(error) else ""
        raise DeviceError(f"JAX cannot start its device{wanted}{reason}; JAX_PLATFORMS=cpu uses the CPU") from error
    if device.platform == "cpu":
        total, free = _machine_memory()
        return Device("cpu", _cpu_name(), total, free)
    stats = device.memory_stats() or {}
    total = int(stats.get("bytes_limit", 0))
    return Device("cuda", device.device_kind, total, total - int(stats.get("bytes_in_use", 0)))


def has_bfloat16_products() -> bool:
    """Whether this CPU multiplies bfloat16 in hardware."""
    return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(_named_value("/proc/cpuinfo", "flags", "Features").split()))


def _machine_memory() -> tuple[int, int]:
    """Bytes in all, and those that can be had: what files only occupy until somebody needs it counts as free."""
    page = os.sysconf("SC_PAGE_SIZE")
    total, unused = page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    available = _named_value("/proc/meminfo", "MemAvailable")
    return total, int(available.split()[0]) * 1024 if available else unused


def _cpu_name() -> str:
    return _named_value("/proc/cpuinfo", "model name") or "cpu"


def _named_value(file: str, *names: str) -> str:
    """The first value of one of these names in a file of `name: value` lines; empty where there is none."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""
