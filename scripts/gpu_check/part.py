"""part NAME RESULTS SECONDS [--rehearse] [--skip ITEM]...: run one part's items in this process, a line of JSON each.

{"items": [...]} at first, {"start": item} before an item, {"item": item, "found": {...}} after it. An item that raises
gives {"error": ...}. Exits with 0 at the end, with LATE when the seconds are over, and with BROKEN where an item left a
device that computes no more: then the rest wants a fresh process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scripts.gpu_check.results import plain

LATE, BROKEN = 3, 4
ERROR_LENGTH = 2000  # characters kept of an error; compilers say much

Items = dict[str, Callable[[], dict[str, Any]]]


def run_items(items: Items, skip: Iterable[str], seconds: float, tell: Callable[[dict[str, Any]], None]) -> int:
    """Run what is not to be skipped, in order. Returns the exit status."""
    start = time.monotonic()
    skipped = set(skip)
    for name, item in items.items():
        if name in skipped:
            continue
        if time.monotonic() - start > seconds:
            return LATE
        tell({"start": name})
        began = time.monotonic()
        try:
            found = item()
        except Exception as error:
            traceback.print_exc()
            tell({"item": name, "found": {"error": f"{type(error).__name__}: {error}"[:ERROR_LENGTH]}})
            if not computes():
                return BROKEN
        else:
            tell({"item": name, "found": found | {"wall_s": round(time.monotonic() - began, 2)}})
    return 0


def computes() -> bool:
    """Whether the device still does: after an illegal access nothing runs in the same process."""
    import jax.numpy as jnp

    try:
        return int(jnp.arange(4).sum()) == 6
    except Exception:
        return False


def items_of(part: str, results: Path, *, rehearsal: bool) -> Items:
    """A part's items. Raises ValueError where this machine cannot run it, KeyError for a part that is not there."""
    from scripts.gpu_check import limits, numerics, rivals, speed, step
    from scripts.gpu_check.setting import setting

    makers = {
        "limits": limits.items,
        "numerics": numerics.items,
        "decode": speed.decode_items,
        "prefill": speed.prefill_items,
        "step": step.items,
        "step-without-graphs": step.items,
        "rivals": rivals.items,
        "tuning": speed.tuning_items,
    }
    return makers[part](setting(results, rehearsal=rehearsal))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts.gpu_check.part")
    parser.add_argument("part")
    parser.add_argument("results", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--skip", action="append", default=[])
    arguments = parser.parse_args()

    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(plain(line)), flush=True)

    items = items_of(arguments.part, arguments.results, rehearsal=arguments.rehearse)
    tell({"items": list(items)})
    return run_items(items, arguments.skip, arguments.seconds, tell)


if __name__ == "__main__":
    sys.exit(main())
