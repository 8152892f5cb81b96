"""compile_one GPU SPEC: compile one spec's kernel for a GPU that is not there. Its own process, as a fault aborts it.

Mosaic prints what the compiler found where MOSAIC_GPU_DUMP_RESOURCES, _PTX and _PTXAS are set; JAX_PLATFORMS=cpu lets
the CUDA plugin be found without a driver. It must be set before jax is imported.
"""

from __future__ import annotations

import sys

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS
from kernels_pallas.paged_attention.mosaic.gpus import gpu_named
from kernels_pallas.paged_attention.mosaic.programs import program
from scripts.gpu_codegen.targets import target_config


def compile_one(gpu_name: str, spec_name: str) -> None:
    """Raises what lowering or compiling raises."""
    gpu = gpu_named(gpu_name)
    topology = topologies.get_topology_desc(platform="cuda", target_config=target_config(gpu), topology="1x1x1")
    sharding = SingleDeviceSharding(topology.devices[0])
    function, shapes = program(SPECS[spec_name], gpu)
    shapes = tuple(jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding) for shape in shapes)
    with jax.default_device(topology.devices[0]):  # Pallas asks it for the architecture
        jax.jit(function).lower(*shapes).compile()


if __name__ == "__main__":
    compile_one(*sys.argv[1:])
