"""Compile the attention kernels for GPUs that are not there, and judge what the compiler made of them.

Every spec of arg_specs for every GPU, each in a process of its own. Exits with 1 where a kernel does not compile or
fails a gate: registers that spill, shared memory, instructions that must be there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS
from kernels_pallas.paged_attention.mosaic.gpus import GPUS, gpu_named
from scripts.gpu_codegen.findings import INSTRUCTIONS, SPILLS_BORNE, Findings, faults, read

TIMEOUT_S = 600
HEADER = ("GPU", "registers", "spilled", "shared KB", "at once", *INSTRUCTIONS, "spec")
Result = tuple[str, str, Findings | None, list[str]]


def compiled(gpu: str, spec: str) -> Result:
    """The GPU, the spec, what was found and what is wrong with it."""
    dumps = ("MOSAIC_GPU_DUMP_RESOURCES", "MOSAIC_GPU_DUMP_PTX", "MOSAIC_GPU_DUMP_PTXAS")
    # Without a driver the CUDA plugin is found only where the CPU is the platform asked for.
    environment = os.environ | {"JAX_PLATFORMS": "cpu"} | dict.fromkeys(dumps, "1")
    command = [sys.executable, "-m", "scripts.gpu_codegen.compile_one", gpu, spec]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return gpu, spec, None, [f"took more than {TIMEOUT_S} s"]
    if done.returncode != 0:
        return gpu, spec, None, [f"does not compile (exit status {done.returncode}):\n{done.stderr[-2000:]}"]
    try:
        findings = read(done.stdout)
    except ValueError as error:
        return gpu, spec, None, [str(error)]
    return gpu, spec, findings, list(faults(findings, gpu_named(gpu), spec))


def row(gpu: str, spec: str, findings: Findings | None) -> tuple[str, ...]:
    if findings is None:
        return (gpu, *["-"] * (len(HEADER) - 2), spec)
    counts = (str(findings.instructions[name]) for name in INSTRUCTIONS)
    shared = f"{findings.shared_bytes / 1024:.0f}"
    programs = str(findings.programs(gpu_named(gpu)))
    return (gpu, str(findings.registers), str(findings.spilled_bytes), shared, programs, *counts, spec)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts.gpu_codegen", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gpu", action="append", choices=list(GPUS), help="only this one; may be repeated")
    parser.add_argument("--spec", default="", metavar="PART", help="only specs with PART in their names")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="kernels compiled at once")
    arguments = parser.parse_args()

    specs = [name for name in SPECS if arguments.spec in name]
    if not specs:
        parser.error(f"no spec has {arguments.spec!r} in its name")
    print(*(f"{title:>9}" for title in HEADER[:-1]), f" {HEADER[-1]}", flush=True)
    bad = []
    with ThreadPoolExecutor(arguments.jobs) as workers:
        for gpu, spec, findings, wrong in workers.map(
            lambda pair: compiled(*pair), product(arguments.gpu or GPUS, specs)
        ):
            cells = row(gpu, spec, findings)
            print(*(f"{cell:>9}" for cell in cells[:-1]), f" {spec}{'  <-- see below' if wrong else ''}", flush=True)
            bad += [f"{gpu} {spec}: {fault}" for fault in wrong]
    for (gpu, spec), (spilled, reason) in SPILLS_BORNE.items():
        print(f"borne: {gpu} {spec} spills {spilled} bytes: {reason}")
    print(*bad, sep="\n", end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
