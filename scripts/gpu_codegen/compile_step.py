"""compile_step GPU: compile a whole decode step for a GPU that is not there, and print what it takes and launches.

XLA writes the launches where XLA_FLAGS has --xla_dump_to=FOLDER, an empty one; of JAX_PLATFORMS see compile_one.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from kernels_pallas.paged_attention.mosaic.gpus import gpu_named
from scripts.gpu_codegen.step import decode_step, llama_3_8b
from scripts.gpu_codegen.targets import target_config


def compile_step(gpu_name: str, folder: Path) -> str:
    """What `step_findings.read` reads. Raises what lowering or compiling raises."""
    target = target_config(gpu_named(gpu_name))
    topology = topologies.get_topology_desc(platform="cuda", target_config=target, topology="1x1x1")
    sharding = SingleDeviceSharding(topology.devices[0])
    spec = llama_3_8b()
    step, arguments = decode_step(spec)
    arguments = jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=sharding), arguments)
    with jax.default_device(topology.devices[0]):  # Pallas asks it for the architecture
        memory = step.lower(*arguments).compile().memory_analysis()
    (launches,) = folder.glob("*jit__compute.thunk_sequence_after_thunk_passes.txt")
    numbers = {
        "layers": spec.layers,
        "pool_bytes": sum(pool.size * pool.dtype.itemsize for pool in arguments[1]),
        "aliased_bytes": memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
    }
    return "".join(f"{name}={value}\n" for name, value in numbers.items()) + launches.read_text(encoding="utf-8")


if __name__ == "__main__":
    (dump,) = re.findall(r"--xla_dump_to=(\S+)", os.environ["XLA_FLAGS"])
    print(compile_step(sys.argv[1], Path(dump)))
