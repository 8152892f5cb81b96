"""The device itself: what it is, and the rates that everything else is a share of."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from scripts.gpu_check.setting import Setting

EXPECTED_BYTES_PER_S = 2e12  # to choose how often something is repeated, nothing else
EXPECTED_FLOPS = 5e14


def items(setting: Setting) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is measured, by name."""
    return {"device": lambda: device(setting), "memory": lambda: memory(setting), "matmul": lambda: matmul(setting)}


def device(setting: Setting) -> dict[str, Any]:
    """Names and versions."""
    found = jax.devices()[0]
    return {
        "device": found.device_kind,
        "cut_as": setting.gpu.name,
        "jax": jax.__version__,
        "platform_version": jax.extend.backend.get_backend().platform_version,
        "driver": _driver(),
        "memory_bytes": (found.memory_stats() or {}).get("bytes_limit"),
    }


def _driver() -> str | None:
    """NVIDIA's driver with the clocks and the power limit, as its own tool tells them; None without that tool."""
    query = [
        "nvidia-smi",
        "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem,power.limit",
        "--format=csv,noheader",
    ]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def memory(setting: Setting) -> dict[str, float]:
    """Bytes/s of device memory: reading and writing 1 GiB each (their sum counts), and reading alone."""
    numbers = jnp.arange(setting.scaled(1 << 28, 1 << 12), dtype=jnp.int32)
    expected_s = numbers.nbytes / EXPECTED_BYTES_PER_S
    copied = setting.seconds(jnp.bitwise_not, numbers, expected_s=expected_s)

    def read(before: jax.Array, numbers: jax.Array) -> jax.Array:
        return jnp.sum(numbers ^ before)

    read_s = setting.seconds(read, jnp.int32(0), numbers, expected_s=expected_s)
    return {"copy_bytes_per_s": 2 * numbers.nbytes / copied, "read_bytes_per_s": numbers.nbytes / read_s}


def matmul(setting: Setting) -> dict[str, float]:
    """Floating-point operations/s of a large product of bfloat16 matrices of ordinary numbers."""
    size = setting.scaled(8192, 64)
    left, right = (jax.random.normal(jax.random.key(seed), (size, size), jnp.bfloat16) for seed in (0, 1))
    right = right * jnp.bfloat16(size**-0.5)  # products stay as large as their factors
    taken = setting.seconds(jnp.matmul, left, right, expected_s=2 * size**3 / EXPECTED_FLOPS)
    return {"matmul_flops": 2 * size**3 / taken}
