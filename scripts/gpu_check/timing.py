"""How long a function takes on the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

SHORTEST_S = 0.02  # of one measurement: what starting and ending one costs is small beside it
REPEATS = 5


def seconds(turn: Callable[..., Any], carry: Any, *arguments: Any, turns: int, repeats: int = REPEATS) -> float:
    """Seconds that one `turn(carry, *arguments)` takes on the device; it returns the next carry, of the same shapes.

    So many turns are one program in which each needs what the one before it gave: none is left out or overlaps another,
    and the host takes no part. Median of the repeats after a warm-up.
    """

    @jax.jit
    def chain(carry: Any, *arguments: Any) -> Any:
        return lax.fori_loop(0, turns, lambda _, carry: turn(carry, *arguments), carry)

    return median(lambda: chain(carry, *arguments), repeats=repeats) / turns


def calls(expected_s: float) -> int:
    """How many calls fill a measurement, if each takes so long."""
    return int(min(max(SHORTEST_S / expected_s, 2), 512))


def median(
    run: Callable[[], Any], finish: Callable[[Any], Any] = jax.block_until_ready, repeats: int = REPEATS
) -> float:
    """Median seconds of some runs, each to its end, after one that is not counted."""
    finish(run())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        finish(run())
        times.append(time.perf_counter() - start)
    return statistics.median(times)
