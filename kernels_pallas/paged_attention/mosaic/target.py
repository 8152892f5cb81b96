"""The GPU that a function is being traced for: what its kernels are chosen and cut by."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from jax.extend.backend import get_default_device

from kernels_pallas.paged_attention.mosaic.gpus import GPUS, Gpu


def traced_gpu() -> Gpu:
    """The abstract device where there is one (as in `lowering.abstract_gpu`), else JAX's default device.

    Raises ValueError where that is no GPU that the kernels run on.
    """
    return gpu_of(jax.sharding.get_abstract_mesh().abstract_device or get_default_device())


def gpu_of(device: Any) -> Gpu:
    """What the kernels need to know of a device of JAX.

    A kind of GPU that nobody described takes the numbers of one that has the same CUDA capability, and its own number
    of multiprocessors. Raises ValueError for a device without a capability, or with one that no described GPU has.
    """
    kind = device.device_kind
    capability = getattr(device, "compute_capability", None)
    known = sorted({gpu.capability for gpu in GPUS.values()})
    wanted = f"the GPU kernels of attention are for CUDA capability {', '.join(f'{a}.{b}' for a, b in known)}"
    if capability is None:
        raise ValueError(f"{kind} is no NVIDIA GPU; {wanted}")
    alike = [gpu for gpu in GPUS.values() if f"{gpu.capability[0]}.{gpu.capability[1]}" == capability]
    if not alike:
        raise ValueError(f"{kind} has CUDA capability {capability}; {wanted}")
    for gpu in alike:
        if gpu.device_kind == kind:
            return gpu
    return dataclasses.replace(
        alike[0], device_kind=kind, multiprocessors=getattr(device, "core_count", None) or alike[0].multiprocessors
    )
