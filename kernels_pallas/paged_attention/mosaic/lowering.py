"""Lowering of kernels for a GPU that is not there: shapes, layouts and shared memory are checked without CUDA."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax.experimental.mosaic.gpu.core import artificial_shared_memory_limit

from kernels_pallas.paged_attention.mosaic.gpus import gpu_named

# Pallas looks kinds of GPU up by a pattern that knows the A10 and not the A10G.
_LOOKED_UP_AS = {"NVIDIA A10G": "NVIDIA A10"}


@dataclasses.dataclass(frozen=True)
class _AbstractGpu(jax.sharding.AbstractDevice):
    compute_capability: str = ""  # Mosaic asks for it, and takes a device without one for a Hopper


@contextmanager
def abstract_gpu(name: str) -> Iterator[None]:
    """Within it, functions that are traced and lowered for platform "cuda" are lowered for the GPU `name`.

        with abstract_gpu("a100"):
            jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",))

    Lowering then fails for what the architecture lacks and for more shared memory than the GPU has; what only the
    compiler finds (registers that spill, say) passes. Raises ValueError for a GPU that is not known.
    """
    gpu = gpu_named(name)
    device = _AbstractGpu(
        device_kind=_LOOKED_UP_AS.get(gpu.device_kind, gpu.device_kind),
        num_cores=None,
        platform="gpu",
        compute_capability=".".join(map(str, gpu.capability)),
    )
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh), artificial_shared_memory_limit(gpu.shared_bytes):
        yield
