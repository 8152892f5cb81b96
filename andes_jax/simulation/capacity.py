"""How much one device carries: the highest rate at which readers are still served well enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from andes_jax.failure import UserError
from andes_jax.simulation.contender import Contender
from andes_jax.simulation.sweep import Cell, Runs
from andes_jax.workload.traces import TraceRow

PEAK_WINDOW_S = 60.0
FURTHEST = 2.0**12  # times the first guess, either way


@dataclass(frozen=True, slots=True)
class CriticalRate:
    """Where a quality that falls with the rate crosses its target."""

    rate: float  # between two of `evaluated`, by a straight line
    evaluated: tuple[tuple[float, float], ...]  # (rate, mean quality), by rate


@dataclass(frozen=True, slots=True)
class Devices:
    """What a trace needs."""

    requests_per_s: float  # that one device carries
    mean_per_s: float | None  # that the trace brings on average; None: it has no arrivals
    peak_per_s: float | None  # in its busiest minute

    @property
    def for_mean(self) -> int | None:
        """Devices for the mean."""
        return None if self.mean_per_s is None else math.ceil(self.mean_per_s / self.requests_per_s)

    @property
    def for_peak(self) -> int | None:
        """Devices for the busiest minute."""
        return None if self.peak_per_s is None else math.ceil(self.peak_per_s / self.requests_per_s)


def critical_rate(
    quality: Callable[[float], Sequence[float]],
    target: float,
    *,
    guess: float = 1.0,
    precision: float = 0.02,
    tell: Callable[[float, float], None] = lambda rate, mean: None,
) -> CriticalRate:
    """The rate at which the mean of `quality` over its seeds falls below `target`, found by bisection.

    Looks for a bracket by doubling or halving the guess, then halves the bracket in logarithms until its ends are
    within `precision` of each other. Chance may make quality rise somewhere: the result is then one of the crossings.
    `tell` hears of each rate that was tried.

    Raises:
        UserError: quality is never below, or never at, the target.
    """
    means: dict[float, float] = {}

    def good(rate: float) -> bool:
        means[rate] = float(np.mean(quality(rate)))
        tell(rate, means[rate])
        return means[rate] >= target

    low = high = guess
    if good(guess):
        while good(high := high * 2):
            low = high
            if high >= guess * FURTHEST:
                raise UserError(f"the quality stays at {means[high]:.3f} whatever the rate; there is no limit to find")
    else:
        while not good(low := low / 2):
            high = low
            if low <= guess / FURTHEST:
                raise UserError(f"the quality is {means[low]:.3f} at the lowest rate; {target} is out of reach")
    while high > low * (1 + precision):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if good(middle) else (low, middle)
    above, below = means[low], means[high]
    rate = low + (high - low) * (above - target) / (above - below) if above > below else low
    return CriticalRate(rate, tuple(sorted(means.items())))


def qoe_at(run_all: Runs, contender: Contender, seeds: int) -> Callable[[float], list[float]]:
    """Mean QoE of each seed at a rate. It raises UserError where nobody reads along."""

    def quality(rate: float) -> list[float]:
        results = list(run_all([Cell(rate, contender, seed) for seed in range(seeds)]))
        means = [result.figures.summary["all"].qoe_mean for result in results]
        if any(mean is None for mean in means):
            raise UserError("nobody reads along, so there is no quality of experience; give readers and tiers that do")
        return [mean for mean in means if mean is not None]

    return quality


def demand(rows: Sequence[TraceRow]) -> tuple[float | None, float | None]:
    """Requests per second of a trace, on average and in its busiest minute; None for one without arrivals."""
    times = np.array(sorted(row.arrived_s for row in rows if row.arrived_s is not None))
    if len(times) < 2:
        return None, None
    within = np.searchsorted(times, times + PEAK_WINDOW_S) - np.arange(len(times))
    whole_s = float(times[-1] - times[0])
    mean = len(times) / max(whole_s, 1e-9)
    return mean, max(mean, float(within.max()) / PEAK_WINDOW_S) if whole_s > PEAK_WINDOW_S else mean
