"""Runs a part in a process of its own and survives what it does: kernels may hang, abort, or break the device for all
that follows in the process. What it found up to then is kept, and a fresh process goes on after the bad item.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from scripts.gpu_check.part import LATE

PATIENCE_S = 90.0  # for one line; a kernel takes a few seconds to compile and time, a model's whole step a minute
OUT_OF_TIME = "out of time"
RESTARTS = 6  # of a part
ERROR_LENGTH = 2000  # characters kept of what a child said before it died

Tell = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class _Child:
    """What one process did."""

    done: list[str]  # items it told of
    item: str | None = None  # begun and not told of
    fault: str | None = None  # why it was ended
    items: list[str] = field(default_factory=list)  # all of its part, told of or not; empty where it did not get so far


def run_part(
    command: Callable[[float, list[str]], Sequence[str]],  # from seconds left and items to skip
    environment: Mapping[str, str],
    seconds: float,
    tell: Tell,
    patience_s: float = PATIENCE_S,
) -> str | None:
    """Run a part to its end, telling each item as it comes, and those that nothing came of as not available.

    Returns what is wrong with the part as a whole, if anything.
    """
    told: set[str] = set()
    items: list[str] = []

    def keep(item: str, found: dict[str, Any]) -> None:
        told.add(item)
        tell(item, found)

    fault = _run_children(command, environment, time.monotonic() + seconds, keep, patience_s, items)
    for item in items:
        if item not in told:
            tell(item, {"not_available": fault or "nothing was said of it"})
    return fault


def _run_children(
    command: Callable[[float, list[str]], Sequence[str]],
    environment: Mapping[str, str],
    end: float,
    tell: Tell,
    patience_s: float,
    items: list[str],  # filled with those of the part
) -> str | None:
    done: list[str] = []
    for _ in range(1 + RESTARTS):
        left = end - time.monotonic()
        if left <= 0:
            return OUT_OF_TIME
        child, status, words = _run_child(command(left, done), environment, end, tell, patience_s)
        done += child.done
        items[:] = child.items or items
        if child.fault == OUT_OF_TIME or status == LATE:
            return OUT_OF_TIME
        if status == 0:
            return None
        why = child.fault or f"the process ended with status {status}: {words}"
        if child.item is not None:
            tell(child.item, {"error": why})
            done.append(child.item)
        elif not child.done:
            return why
    return f"begun {1 + RESTARTS} times and not finished"


def _run_child(
    command: Sequence[str], environment: Mapping[str, str], end: float, tell: Tell, patience_s: float
) -> tuple[_Child, int, str]:
    child = _Child([])
    lines: queue.Queue[str | None] = queue.Queue()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, env=dict(environment), stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as process,
    ):
        assert process.stdout is not None
        pump = threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True)
        pump.start()
        try:
            _listen(lines, child, end, tell, patience_s)
        finally:
            if child.fault is not None or sys.exc_info()[0] is not None:
                _end(process)
            status = process.wait()
            pump.join()
        errors.seek(0, os.SEEK_END)
        errors.seek(max(0, errors.tell() - ERROR_LENGTH))
        return child, status, errors.read().decode(errors="replace")


def _listen(lines: queue.Queue[str | None], child: _Child, end: float, tell: Tell, patience_s: float) -> None:
    """Take in a process's lines until it ends, says nothing for too long, or the time is over."""
    while True:
        left = end - time.monotonic()
        try:
            line = lines.get(timeout=max(0.0, min(left, patience_s)))
        except queue.Empty:
            child.fault = OUT_OF_TIME if left < patience_s else f"said nothing for {patience_s:.0f} s, and was ended"
            return
        if line is None:
            return
        if not line.startswith("{"):
            continue  # what libraries print
        message = json.loads(line)
        if "items" in message:
            child.items = message["items"]
        elif "start" in message:
            child.item = message["start"]
        else:
            child.item = None
            child.done.append(message["item"])
            tell(message["item"], message["found"])


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """With all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
