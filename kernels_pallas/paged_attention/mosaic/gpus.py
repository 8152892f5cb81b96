"""The GPUs that kernels are tuned and compiled for, with the numbers that bound a kernel on them."""

from __future__ import annotations

from dataclasses import dataclass

REGISTERS = 65536  # of a multiprocessor, on every GPU here
RESERVED_SHARED = 1024  # bytes of a multiprocessor's shared memory that each program on it costs besides its own


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, from NVIDIA's data sheets and programming guide."""

    name: str  # as commands and tables call it
    device_kind: str  # as the driver and jax call it
    capability: tuple[int, int]  # of CUDA
    multiprocessors: int
    shared_bytes: int  # of shared memory, the most that one block of threads can have

    @property
    def family(self) -> str:
        """Which kernels run on it: "hopper" has TMA and wgmma, "ampere" cp.async and mma.sync."""
        return "hopper" if self.capability >= (9, 0) else "ampere"


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a10g", "NVIDIA A10G", (8, 6), 80, 101376),
        Gpu("a100", "NVIDIA A100-SXM4-40GB", (8, 0), 108, 166912),
        Gpu("h100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 232448),
        Gpu("h200", "NVIDIA H200", (9, 0), 132, 232448),
    )
}


def gpu_named(name: str) -> Gpu:
    """The GPU of a short name. Raises ValueError for one that is not known."""
    if name not in GPUS:
        raise ValueError(f"no GPU named {name!r}; there are {', '.join(GPUS)}")
    return GPUS[name]
