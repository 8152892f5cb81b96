"""What a sweep found: one row for each run and tier for programs, means over seeds for people."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from andes_jax.simulation.sweep import Result
from andes_jax.workload.outcome import Summary

TARGET_QOE = 0.9
_SUMMARY = [field.name for field in fields(Summary)]
_RUN = ("offered_per_s", "duration_s", "steps", "leaps", "busy", "held", "wall_s")
COLUMNS = ("policy", "rate", "seed", "tier", *_RUN, *_SUMMARY)


@dataclass(frozen=True, slots=True)
class Point:
    """A contender at a rate, over its seeds."""

    contender: str
    rate: float
    results: tuple[Result, ...]

    def values(self, name: str, tier: str = "all") -> np.ndarray:
        """A field of Summary or Figures, one value for each seed that has it."""
        found = []
        for result in self.results:
            holder = result.figures if name in _RUN else result.figures.summary.get(tier)
            value = getattr(holder, name) if holder is not None else None
            if value is not None:
                found.append(value)
        return np.array(found, np.float64)

    def mean(self, name: str, tier: str = "all") -> float | None:
        """Their mean; None where no seed has one."""
        values = self.values(name, tier)
        return float(values.mean()) if len(values) else None


def points(results: Iterable[Result]) -> list[Point]:
    """Results by rate, then by contender in the order in which they first occur."""
    groups: dict[tuple[float, str], list[Result]] = {}
    contenders: dict[str, int] = {}
    for result in results:
        label = result.figures.contender
        contenders.setdefault(label, len(contenders))
        groups.setdefault((result.cell.rate, label), []).append(result)
    ordered = sorted(groups, key=lambda key: (key[0], contenders[key[1]]))
    return [Point(label, rate, tuple(groups[rate, label])) for rate, label in ordered]


def tiers_of(found: Iterable[Point]) -> list[str]:
    """Names of the tiers that occur, the most urgent first."""
    names = {name for point in found for result in point.results for name in result.figures.summary if name != "all"}
    return [name for name in ("realtime", "streaming", "batch") if name in names]


def sustained(found: Sequence[Point], contender: str, target: float = TARGET_QOE) -> tuple[float | None, bool]:
    """The rate up to which a contender's mean QoE stays at the target, and whether a limit was seen at all.

    Between two rates by a straight line; None: below it already at the lowest rate, or nobody reads along.
    """
    last: tuple[float, float] | None = None
    for point in found:
        quality = point.mean("qoe_mean") if point.contender == contender else None
        if quality is None:
            continue
        if quality < target:
            if last is None:
                return None, True
            rate, before = last
            return rate + (point.rate - rate) * (before - target) / (before - quality), True
        last = (point.rate, quality)
    return (None, False) if last is None else (last[0], False)


def write_csv(path: Path, results: Iterable[Result]) -> None:
    """One row for each run and tier; numbers as they are, nothing where there is none. Raises OSError."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for cell, figures in results:
            run = [getattr(figures, name) for name in _RUN]
            for tier, summary in figures.summary.items():
                row = [getattr(summary, name) for name in _SUMMARY]
                writer.writerow([figures.contender, cell.rate, cell.seed, tier, *run, *row])
