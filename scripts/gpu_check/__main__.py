"""Check the GPU kernels on the GPU of this machine: are they right, how fast are they, and what would be faster.

Prints a line per finding and keeps all of them in a file of JSON. Exits with 1 where a kernel is wrong or fails, where
numbers that were asked for were not checked, and where a part was cut short that is not open-ended.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.gpu_check import summary
from scripts.gpu_check.results import Results
from scripts.gpu_check.step import WITHOUT_GRAPHS
from scripts.gpu_check.supervisor import run_part

# In order of worth, with the share of the time that each may take; what one leaves, the others have. Numbers before
# speed: half of ten minutes is five seconds for each kernel that a Hopper checks, which are 52.
PARTS = {
    "numerics": 0.5,
    "limits": 0.06,
    "decode": 0.13,
    "prefill": 0.08,
    "step": 0.12,
    "step-without-graphs": 0.05,
    "rivals": 0.03,
    "tuning": 0.03,
}
OPEN_ENDED = ("rivals", "tuning")  # as far as time allows, and what does not run there is no fault
FOLDER = Path("tests/bench/results")


def environment(part: str, *, rehearsal: bool) -> dict[str, str]:
    """Of a part's process."""
    values = dict(os.environ)
    values["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # torch wants memory, too
    if part == "step-without-graphs":
        values["XLA_FLAGS"] = f"{values.get('XLA_FLAGS', '')} {WITHOUT_GRAPHS}".strip()
    if rehearsal:
        values["JAX_PLATFORMS"] = "cpu"
    return values


def check(results: Results, parts: Sequence[str], seconds: float, *, rehearsal: bool) -> None:
    """Run the parts in order, each within its share of what is left for it and those after it."""
    end = time.monotonic() + seconds
    for index, part in enumerate(parts):
        share = PARTS[part] / sum(PARTS[other] for other in parts[index:])

        def command(left: float, done: list[str], part: str = part) -> list[str]:
            skipped = [word for item in done for word in ("--skip", item)]
            options = ["--rehearse"] if rehearsal else []
            run = [sys.executable, "-m", "scripts.gpu_check.part", part, str(results.path), f"{left:.0f}"]
            return [*run, *options, *skipped]

        def tell(item: str, found: dict[str, Any], part: str = part) -> None:
            results.add(part, item, found)
            print(summary.line(part, item, found), flush=True)

        left = end - time.monotonic()
        fault = run_part(command, environment(part, rehearsal=rehearsal), share * left, tell)
        if fault is not None:
            results.note("unfinished", results.values.get("unfinished", {}) | {part: fault})
            print(f"{part}: {fault}", flush=True)


def faults(results: Results, parts: Sequence[str]) -> list[str]:
    """What must not be in these parts: wrong numbers, kernels that fail, numbers not checked, a part cut short."""
    found = []
    unfinished = results.values.get("unfinished", {})
    for part in (part for part in parts if part not in OPEN_ENDED):
        items = results.part(part)
        for item, values in items.items():
            if "error" in values:
                found.append(f"{part}: {item} failed")
            elif "right" not in values and part == "numerics":
                found.append(f"{part}: {item} was not checked")
            elif not values.get("right", True):
                found.append(f"{part}: {item} is wrong")
        if not items and part == "numerics":
            found.append(f"{part}: nothing was checked")
        if part in unfinished:
            found.append(f"{part}: cut short, {unfinished[part]}")
    return found


def named(results: Results, name: str | None) -> None:
    """Move the file of results to the device's name, unless it was named."""
    device = results.part("limits").get("device", {}).get("device")
    if name is None and device is not None:
        target = FOLDER / f"gpu-{re.sub(r'[^a-z0-9]+', '-', str(device).lower()).strip('-')}.json"
        results.path = results.path.rename(target)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts.gpu_check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=540, help="for all of it (default: 540)")
    parser.add_argument("--out", type=Path, help=f"file of results (default: {FOLDER}/gpu-DEVICE.json)")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this one; may be repeated")
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes, interpreted on the CPU: no GPU needed")
    arguments = parser.parse_args()

    parts = [part for part in PARTS if part in (arguments.part or PARTS)]
    results = Results(arguments.out or FOLDER / "gpu-unnamed.json")
    check(results, parts, arguments.seconds, rehearsal=arguments.rehearse)
    named(results, arguments.out)
    timed = results.part("decode") | results.part("prefill")
    device = results.part("limits").get("device", {}).get("cut_as", "this GPU")
    for family in ("hopper", "ampere"):
        if any(item.startswith(family) for item in results.part("tuning")):
            rows = summary.tuning_rows(timed, results.part("tuning"), family)
            results.note("tuning_rows", summary.tuning_text(rows, device).splitlines())
            print(summary.tuning_text(rows, device))
    bad = faults(results, parts)
    print(*bad, f"results: {results.path}", sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
