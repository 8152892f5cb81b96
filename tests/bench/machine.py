"""What the figures were measured on, and who else used its CPUs meanwhile (Linux only, from /proc)."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
REPOSITORY = Path(__file__).resolve().parents[2]
REPORTED_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
REPORTED_PACKAGES = ("andes-jax", "jax", "jaxlib", "numpy", "httpx")


@dataclass(frozen=True)
class CpuReading:
    """CPU seconds since boot: idle over all CPUs, and used by the measurement's own processes; and when it was read."""

    clock_s: float
    idle_s: float
    own_s: float


@dataclass(frozen=True)
class Process:
    """Fields of /proc/<pid>/stat; `cpu_s`, in seconds, includes children that ended and were waited for."""

    parent: int
    session: int
    cpu_s: float


def _process(pid: int) -> Process | None:
    """Reads one process; None if it ended in between."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name stands in parentheses and may hold spaces, so count fields from the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return Process(int(fields[1]), int(fields[3]), sum(int(field) for field in fields[11:15]) / TICKS_PER_SECOND)


def process_tree(root_pids: list[int]) -> dict[int, Process]:
    """The roots, their descendants, and whoever shares a session that a root leads (a server's orphaned workers)."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    processes = {pid: process for pid in pids if (process := _process(pid)) is not None}
    own = {pid for pid, process in processes.items() if pid in root_pids or process.session in root_pids}
    while True:
        children = {pid for pid, process in processes.items() if process.parent in own} - own
        if not children:
            return {pid: processes[pid] for pid in own}
        own |= children


def read_cpu(server_pids: list[int]) -> CpuReading:
    """Reads the counters now; this process and the servers' trees count as the measurement's own."""
    clock_s = time.monotonic()
    idle, waiting = (int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[4:6])
    own_s = sum(process.cpu_s for process in process_tree([os.getpid(), *server_pids]).values())
    return CpuReading(clock_s, (idle + waiting) / TICKS_PER_SECOND, own_s)


def other_cpu_fraction(before: CpuReading, after: CpuReading) -> float:
    """Share of all CPUs (0 to 1) that was neither idle nor the measurement's: others, and time a hypervisor took."""
    available_s = (after.clock_s - before.clock_s) * (os.cpu_count() or 1)
    used_s = available_s - (after.idle_s - before.idle_s)
    return min(1.0, max(0.0, used_s - (after.own_s - before.own_s)) / available_s)


def memory_mib(root_pids: list[int]) -> float:
    """Proportional resident memory of the processes' trees in MiB: pages they share count once."""
    total_kib = 0
    for pid in process_tree(root_pids):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total_kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total_kib / 1024


def _git(*arguments: str) -> str:
    """The output of a git command in this repository; empty where there is no commit or no git."""
    try:
        result = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def describe_machine() -> dict[str, Any]:
    """CPU model, cores, vector extensions, memory in GiB, and the versions of what runs here."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    values = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    present = set(values.get("flags", values.get("Features", "")).split())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": f"{values.get('model name', platform.machine())}, family {values.get('cpu family', '?')}"
        f" model {values.get('model', '?')}",
        "cores": os.cpu_count(),
        "flags": [flag for flag in REPORTED_FLAGS if flag in present],
        "memory_gib": round(pages / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version for name in REPORTED_PACKAGES if (version := _version(name))},
        "git_commit": _git("rev-parse", "HEAD"),
        "git_changed_files": len(_git("status", "--porcelain").splitlines()),
    }


def _version(package: str) -> str:
    """An installed package's version; empty if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
