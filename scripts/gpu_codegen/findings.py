"""What the compiler said of a kernel, and whether that is good enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernels_pallas.paged_attention.mosaic.gpus import REGISTERS, RESERVED_SHARED, Gpu

# Kernels that may spill, by GPU and spec: how many bytes, and why that is borne.
SPILLS_BORNE: dict[tuple[str, str], tuple[int, str]] = {}

INSTRUCTIONS = {
    "wgmma": r"\bwgmma\.mma_async",
    "tma": r"\bcp\.async\.bulk\.tensor\S*\.shared",
    "mma": r"\bmma\.sync",
    "cp.async": r"\bcp\.async\.c[ag]\.",
}
EXPECTED = {"hopper": ("wgmma", "tma"), "ampere": ("mma", "cp.async")}


@dataclass(frozen=True, slots=True)
class Findings:
    """Of one kernel."""

    architecture: str  # what it was compiled for
    registers: int  # of a thread
    threads: int  # of a program
    stack_bytes: int
    spilled_bytes: int  # stores and loads
    shared_bytes: int  # of a program
    instructions: dict[str, int]  # how many of each of INSTRUCTIONS

    def programs(self, gpu: Gpu) -> int:
        """How many programs a multiprocessor runs at once."""
        by_registers = REGISTERS // (self.registers * self.threads)
        return min(by_registers, (gpu.shared_bytes + RESERVED_SHARED) // (self.shared_bytes + RESERVED_SHARED))


def read(text: str) -> Findings:
    """From what Mosaic prints where it is to dump resources, PTX and ptxas's words: one kernel.

    Raises ValueError where a number is missing or there are several kernels.
    """

    def only(pattern: str) -> str:
        found = re.findall(pattern, text)
        if len(found) != 1:
            raise ValueError(f"expected one {pattern!r} in the compiler's output, found {len(found)}")
        return str(found[0])

    return Findings(
        architecture=only(r"\.target (\w+)"),
        registers=int(only(r"Used (\d+) registers")),
        threads=int(only(r"\.maxntid (\d+)")),
        stack_bytes=int(only(r"(\d+) bytes stack frame")),
        spilled_bytes=int(only(r"(\d+) bytes spill stores")) + int(only(r"(\d+) bytes spill loads")),
        shared_bytes=int(only(r"smem_scratch_bytes=(\d+)")),
        instructions={name: len(re.findall(pattern, text)) for name, pattern in INSTRUCTIONS.items()},
    )


def faults(findings: Findings, gpu: Gpu, spec: str) -> Iterator[str]:
    """What must not be."""
    borne, _ = SPILLS_BORNE.get((gpu.name, spec), (0, ""))
    if findings.spilled_bytes > borne:
        yield f"spills {findings.spilled_bytes} bytes, {borne} are borne"
    if findings.spilled_bytes < borne:
        yield f"spills {findings.spilled_bytes} bytes and no longer {borne}: lower the number in SPILLS_BORNE"
    if findings.stack_bytes and not borne:
        yield f"keeps {findings.stack_bytes} bytes on a stack"
    if findings.shared_bytes > gpu.shared_bytes:
        yield f"wants {findings.shared_bytes} bytes of shared memory, the GPU has {gpu.shared_bytes}"
    if findings.registers * findings.threads > REGISTERS:
        yield f"wants {findings.registers * findings.threads} registers, the GPU has {REGISTERS}"
    for name in EXPECTED[gpu.family]:
        if not findings.instructions[name]:
            yield f"has no {name}"
    architecture = "sm_" + "".join(map(str, gpu.capability)) + ("a" if gpu.family == "hopper" else "")
    if findings.architecture != architecture:
        yield f"is for {findings.architecture} and not for {architecture}"
