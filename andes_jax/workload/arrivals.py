"""From recorded requests to a workload: which of them, how fast, of which tier and for which reader. All by seed.

Every choice draws from a stream of its own, so that two workloads of one seed differ only in what was asked to differ:
the same requests with the same readers come at another rate, or the same requests come with other readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from andes_jax.failure import UsageError
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.process import Process, arrival_times
from andes_jax.workload.readers import Readers
from andes_jax.workload.traces import TraceRow

_ROWS, _TIMES, _TIERS, _READERS, _PATIENCE = range(5)  # streams of random numbers


@dataclass(frozen=True, slots=True)
class Workload:
    """What is made of a trace. Raises UsageError for values that make no sense."""

    rate: float = 1.0  # times the trace's own; with a process, requests per second
    process: Process | None = None  # None: the recorded arrivals; else rows are drawn at random, with repetition
    start_s: float = 0.0  # of recorded arrivals, before the rate is applied
    end_s: float | None = None  # None: the trace's end
    duration_s: float | None = None  # of what comes out: no arrival is later; None needs recorded arrivals
    tiers: tuple[tuple[Tier, float], ...] | None = None  # shares; None: recorded tiers, realtime where there is none
    readers: Readers = Readers()  # of all but the batch tier, along which nobody reads
    length_scale: float = 1.0  # prompts and replies are so many times as long, at least 1 token
    max_tokens: int | None = None  # requests with more tokens of prompt and reply are left out
    min_output_tokens: int = 1  # requests with shorter replies are left out
    cancelled: float = 0.0  # share of readers who leave at an even chance during the time that reading it all takes

    def __post_init__(self) -> None:
        if self.end_s is not None and not self.end_s > self.start_s:
            raise UsageError(f"the window of the trace ends at {self.end_s:g} s and starts at {self.start_s:g} s")
        bounds = {
            "rate": 0 < self.rate < math.inf,
            "start_s": 0 <= self.start_s < math.inf,
            "duration_s": self.duration_s is None or 0 < self.duration_s < math.inf,
            "length_scale": 0 < self.length_scale < math.inf,
            "max_tokens": self.max_tokens is None or self.max_tokens >= 2,
            "cancelled": 0 <= self.cancelled <= 1,
        }
        for name, good in bounds.items():
            if not good:
                raise UsageError(f"a workload's {name} cannot be {getattr(self, name)}")


def make_arrivals(rows: Sequence[TraceRow], workload: Workload, seed: int) -> list[Arrival]:
    """The requests of a workload in the order of their arrival. Raises UsageError when there is none to be had."""
    rows = window(rows, workload.start_s, workload.end_s)
    rows = fitting(rows, workload)
    if not rows:
        raise UsageError("no request of the trace is in the window and within the length limits")
    if workload.process is not None:
        rows = draw(rows, workload, seed)
    elif rows[0].arrived_s is None:
        raise UsageError("the trace holds lengths without arrivals; draw some: poisson, gamma:CV, on_off:ON/OFF")
    else:
        rows = [row._replace(arrived_s=(row.arrived_s or 0.0) / workload.rate) for row in rows]
    if workload.duration_s is not None:
        rows = [row for row in rows if (row.arrived_s or 0.0) < workload.duration_s]
    return _with_readers(rows, workload, seed)


def window(rows: Sequence[TraceRow], start_s: float, end_s: float | None) -> list[TraceRow]:
    """Rows that arrived from start_s on and before end_s, with times from start_s; lengths alone are all kept."""
    end_s = math.inf if end_s is None else end_s
    return [
        row if row.arrived_s is None else row._replace(arrived_s=row.arrived_s - start_s)
        for row in rows
        if row.arrived_s is None or start_s <= row.arrived_s < end_s
    ]


def fitting(rows: Sequence[TraceRow], workload: Workload) -> list[TraceRow]:
    """Rows with their lengths scaled, without those that are then too long or too short."""
    scale = workload.length_scale
    longest = math.inf if workload.max_tokens is None else workload.max_tokens
    kept = []
    for row in rows:
        prompt, output = max(1, round(row.prompt_tokens * scale)), max(1, round(row.output_tokens * scale))
        if prompt + output <= longest and output >= workload.min_output_tokens:
            kept.append(row._replace(prompt_tokens=prompt, output_tokens=output))
    return kept


def draw(rows: Sequence[TraceRow], workload: Workload, seed: int) -> list[TraceRow]:
    """Rows drawn with repetition, arriving by the workload's process; one seed draws the same rows at every rate."""
    assert workload.process is not None
    if workload.duration_s is None:
        raise UsageError("arrivals that are drawn need a duration")
    times = arrival_times(workload.process, workload.rate, workload.duration_s, _random(seed, _TIMES))
    chosen = _random(seed, _ROWS).integers(0, len(rows), size=len(times)).tolist()
    return [rows[index]._replace(arrived_s=time) for index, time in zip(chosen, times.tolist(), strict=True)]


def _with_readers(rows: Sequence[TraceRow], workload: Workload, seed: int) -> list[Arrival]:
    count = len(rows)
    tiers = [row.tier if row.tier is not None else Tier.REALTIME for row in rows]
    if workload.tiers is not None:
        names, shares = zip(*workload.tiers, strict=True)
        tiers = [names[index] for index in _random(seed, _TIERS).choice(len(names), size=count, p=shares)]
    readers = workload.readers
    speeds = readers.speeds(count, _random(seed, _READERS)).tolist()
    patience = _random(seed, _PATIENCE).random((count, 2)).tolist()
    arrivals = []
    for index, row in enumerate(rows):
        reads = readers.kind != "none" and tiers[index] is not Tier.BATCH
        target = QoeTarget(readers.first_token_s, speeds[index]) if reads else None
        cancel_after_s = None
        leaves, share = patience[index]
        if target is not None and leaves < workload.cancelled:
            cancel_after_s = share * (target.first_token_s + row.output_tokens / target.tokens_per_s)
        arrivals.append(
            Arrival(row.arrived_s or 0.0, row.prompt_tokens, row.output_tokens, tiers[index], target, cancel_after_s)
        )
    return arrivals


def _random(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])
