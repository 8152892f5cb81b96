"""Compile the attention kernels for GPUs that are not there, and judge what the compiler made of them.

Every spec of arg_specs and a whole decode step for every GPU, each in a process of its own. Exits with 1 where one does
not compile or fails a gate. Of a kernel: registers that spill, shared memory, instructions that must be there; of the
step: pools updated in place, memory beside them, launches.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS
from kernels_pallas.paged_attention.mosaic.gpus import GPUS, gpu_named
from scripts.gpu_codegen import findings, step, step_findings
from scripts.gpu_codegen.findings import INSTRUCTIONS, SPILLS_BORNE

TIMEOUT_S = 600
KERNEL_HEADER = ("registers", "spilled", "shared KB", "at once", *INSTRUCTIONS)
STEP_HEADER = ("pools MB", "in place", "beside MB", "graphs", "launches", "a layer", "attention", "writes")
Result = tuple[tuple[str, ...], list[str]]  # the numbers for the table, none where there are none, and what is wrong


class CompileError(Exception):
    """A process that should have compiled something, with its last words."""


def printed_by(module: str, *arguments: str, **variables: str) -> str:
    """What a module prints that is run with these environment variables. Raises CompileError."""
    # Without a driver the CUDA plugin is found only where the CPU is the platform asked for.
    environment = os.environ | {"JAX_PLATFORMS": "cpu"} | variables
    command = [sys.executable, "-m", f"scripts.gpu_codegen.{module}", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise CompileError(f"took more than {TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise CompileError(f"does not compile (exit status {done.returncode}):\n{done.stderr[-2000:]}")
    return done.stdout


def kernel(gpu: str, spec: str) -> Result:
    dumps = ("MOSAIC_GPU_DUMP_RESOURCES", "MOSAIC_GPU_DUMP_PTX", "MOSAIC_GPU_DUMP_PTXAS")
    try:
        found = findings.read(printed_by("compile_one", gpu, spec, **dict.fromkeys(dumps, "1")))
    except (CompileError, ValueError) as error:
        return (), [str(error)]
    numbers = (found.registers, found.spilled_bytes, f"{found.shared_bytes / 1024:.0f}", found.programs(gpu_named(gpu)))
    counts = (found.instructions[name] for name in INSTRUCTIONS)
    return tuple(map(str, (*numbers, *counts))), list(findings.faults(found, gpu_named(gpu), spec))


def whole_step(gpu: str, _: str) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = step_findings.read(printed_by("compile_step", gpu, XLA_FLAGS=f"--xla_dump_to={folder}"))
        except (CompileError, ValueError) as error:
            return (), [str(error)]
    sizes = (f"{size / 2**20:.0f}" for size in (found.pool_bytes, found.aliased_bytes, found.temporary_bytes))
    launches = (found.graphs, found.launches, f"{found.launches / found.layers:.1f}", found.attentions, found.writes)
    return tuple(map(str, (*sizes, *launches))), list(step_findings.faults(found, gpu_named(gpu)))


def table(header: tuple[str, ...], judge, pairs: list[tuple[str, str]], jobs: int) -> list[str]:
    """Print a row for each (GPU, spec) that is judged; returns all that is wrong."""
    print(*(f"{title:>9}" for title in ("GPU", *header)), " spec", flush=True)
    bad: list[str] = []
    with ThreadPoolExecutor(jobs) as workers:
        for (gpu, spec), (cells, wrong) in zip(pairs, workers.map(lambda pair: judge(*pair), pairs), strict=True):
            row = (gpu, *(cells or ["-"] * len(header)))
            print(*(f"{cell:>9}" for cell in row), f" {spec}{'  <-- see below' if wrong else ''}", flush=True)
            bad += [f"{gpu} {spec}: {fault}" for fault in wrong]
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts.gpu_codegen", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gpu", action="append", choices=list(GPUS), help="only this one; may be repeated")
    parser.add_argument("--spec", default="", metavar="PART", help="only specs with PART in their names")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="how many compile at once")
    arguments = parser.parse_args()

    gpus = arguments.gpu or list(GPUS)
    kernels, steps = ([name for name in names if arguments.spec in name] for names in (SPECS, [step.NAME]))
    if not kernels and not steps:
        parser.error(f"no spec has {arguments.spec!r} in its name")
    bad = []
    if kernels:
        bad += table(KERNEL_HEADER, kernel, list(product(gpus, kernels)), arguments.jobs)
    if steps:
        bad += table(STEP_HEADER, whole_step, list(product(gpus, steps)), arguments.jobs)
    for (gpu, spec), (spilled, reason) in SPILLS_BORNE.items():
        print(f"borne: {gpu} {spec} spills {spilled} bytes: {reason}")
    print(*bad, sep="\n", end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
