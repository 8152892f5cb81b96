"""Jobs as processes of their own against a running server, and killing them."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN_LIMIT_S = 240.0


def job_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "andes_jax.cli", *map(str, arguments), "--quiet"]


def finish(command: Sequence[str]) -> int:
    """Run a job to its end; its exit code."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_LIMIT_S)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode


def records(folder: Path) -> int:
    """Whole lines in the journal of a job."""
    journal = folder / "journal"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def kill_once(command: Sequence[str], folder: Path, choice: random.Random, most_s: float = 2.0) -> bool:
    """Start a job, kill -9 it at a random time after its next record; whether it was still at work."""
    before, began_s = records(folder), time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and records(folder) == before and time.monotonic() - began_s < RUN_LIMIT_S:
            time.sleep(0.01)
        time.sleep(choice.uniform(0, most_s))
        was_at_work = process.poll() is None
        process.kill()
    return was_at_work


def cut_journal(folder: Path, choice: random.Random) -> None:
    """Lose the end of the journal, from a random byte of its last three records on, as a loss of power may."""
    journal = folder / "journal"
    data = journal.read_bytes()
    last = b"".join(data.splitlines(keepends=True)[-3:])
    with open(journal, "r+b") as file:
        file.truncate(len(data) - choice.randint(0, len(last)))
