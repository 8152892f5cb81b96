"""What the scheduling study simulates: machines with their requests and rates, and who competes on them.

The Azure trace is replayed from minute 15 on (parameters were chosen on minutes 0-15), as often as the window needs at
a rate; seed s begins s * 300 s later in it, so that seeds differ in more than readers. Other arrivals are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from andes_jax.request import Tier
from andes_jax.simulation.contender import parse_contender
from andes_jax.simulation.experiment import Options, simulate
from andes_jax.simulation.profiles import Profile, load_profile
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.arrivals import Workload, fitting, make_arrivals
from andes_jax.workload.process import parse_process
from andes_jax.workload.readers import parse_readers
from andes_jax.workload.traces import TraceRow, read_trace

AZURE, SHAREGPT, ARXIV = "azure2023_conv_0-1800s.csv", "sharegpt_lengths.csv.gz", "arxiv_summarization_lengths.csv.gz"
REPLAY_START_S, REPLAY_END_S, SEED_SHIFT_S = 900.0, 1800.0, 300.0
BATCH_SURPLUS = 1.5  # times as many batch requests as the machine could serve in the window alone
REALTIME_SHARE = 0.5  # of the machine's capacity, beside batch work
LATENCY_CHANGES = ("gamma=0.1", "gamma=0.5", "gamma=1", "gamma=2", "ahead_s=20", "ahead_s=1000")
ABLATIONS = (
    "horizon_s=1e9", "max_preempt=0", "beta=0", "alpha=0", "gamma=0", "relegate=0", "work_power=0.01", "worst_first=1",
)  # fmt: skip


class Entry(NamedTuple):
    """Who competes: a policy, perhaps with changes, and what it is told of lengths."""

    words: str  # as parse_contender reads it
    predict: str = "none"  # as Options.predict

    @property
    def label(self) -> str:
        return self.words if self.predict == "none" else f"{self.words} @{self.predict}"


THREE_TIER = Entry("three_tier", "0.6")
POLICIES = (
    Entry("fcfs"), Entry("andes_paper"), Entry("round_robin"), Entry("sjf_oracle"), THREE_TIER, Entry("three_tier"),
)  # fmt: skip
PARTS = ("rates", "ablations", "latency")
BATCH_MIXES = ("both", "batch alone", "realtime alone")


@dataclass(frozen=True, slots=True)
class Cell:
    """A machine and its requests."""

    name: str
    profile: str  # empty: the fitted one given on the command line
    trace: str
    rates: tuple[float, ...]
    rate_words: str  # what a rate of 1 is
    kv_tokens: int | None = None  # None: the profile's
    host_kv_tokens: int = 0
    process: str | None = None  # None: the trace's own arrivals, replayed
    readers: str = "paper"
    max_tokens: int | None = None
    min_output: int = 1
    longest_window_s: float = math.inf
    of_capacity: bool = False  # rates are multiples of what the machine can serve
    probe_rate: float | None = None  # at which parts and trades are looked at
    parts: tuple[str, ...] = ("rates",)
    with_batch: bool = False


_A100 = Cell(
    name="a100-short", profile="a100-40gb:opt-13b", trace=SHAREGPT, rates=(4.0, 4.5, 5.5, 6.5, 8.0, 9.5),
    rate_words="requests per second", kv_tokens=14_000, host_kv_tokens=200_000, process="poisson", max_tokens=2048,
    min_output=4, probe_rate=6.5, parts=PARTS,
)  # fmt: skip
_H200 = Cell(
    name="h200-short", profile="h200:llama-3-8b", trace=AZURE, rates=(2.5, 3.0, 3.5, 4.5),
    rate_words="times the trace's own rate", kv_tokens=60_000, host_kv_tokens=600_000, max_tokens=8000,
)  # fmt: skip
CELLS = {
    cell.name: cell
    for cell in (
        _A100,
        replace(
            _A100, name="a100-bursty", process="gamma:3", rates=(4.0, 5.0, 6.0), probe_rate=5.0,
            parts=("rates", "latency"),
        ),
        _H200,
        replace(
            _H200, name="h200-ample", kv_tokens=None, readers="fast", rates=(3.5, 4.0, 4.5, 5.0, 6.0, 8.0),
            longest_window_s=120.0,
        ),
        replace(
            _H200, name="h200-batch", kv_tokens=None, rates=(REALTIME_SHARE,), rate_words="times the capacity",
            of_capacity=True, longest_window_s=120.0, with_batch=True,
        ),
        Cell(
            name="cpu", profile="", trace=SHAREGPT, rates=(0.6, 0.8, 1.0, 1.2, 1.5), rate_words="times the capacity",
            process="poisson", min_output=4, of_capacity=True,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is the same for all runs."""

    traces: Path
    window_s: float
    cpu_profile: Path | None = None
    cpu_scale: float = 0.25  # times the lengths of the trace, for the CPU


class Job(NamedTuple):
    """One run, and its name in the results."""

    cell: str
    entry: Entry
    rate: float
    seed: int
    window_s: float
    mix: str = ""  # of BATCH_MIXES, where there is batch work


def jobs_of(cell: Cell, parts: Sequence[str], seeds: int, window_s: float) -> list[Job]:
    """All runs of a cell, each once, the first seed of all before the second."""
    window_s = min(window_s, cell.longest_window_s)
    wanted: list[tuple[Entry, float, str]] = []
    if cell.with_batch:
        entries = (Entry("fcfs"), Entry("three_tier"))
        wanted += [(entry, rate, mix) for rate in cell.rates for mix in BATCH_MIXES for entry in entries]
    elif "rates" in parts:
        wanted += [(entry, rate, "") for rate in cell.rates for entry in POLICIES]
    if cell.probe_rate is not None:
        changes = [change for part, own in (("ablations", ABLATIONS), ("latency", LATENCY_CHANGES))
                   if part in parts and part in cell.parts for change in own]  # fmt: skip
        compared = (Entry("fcfs"), Entry("sjf_oracle"), THREE_TIER) if changes else ()
        changed = tuple(Entry(f"three_tier:{change}", THREE_TIER.predict) for change in changes)
        wanted += [(entry, cell.probe_rate, "") for entry in (*compared, *changed)]
    for entry, _, _ in wanted:
        parse_contender(entry.words)
    unique = dict.fromkeys(wanted)
    return [Job(cell.name, entry, rate, seed, window_s, mix) for seed in range(seeds) for entry, rate, mix in unique]


def machine(cell: Cell, around: Surroundings) -> tuple[Profile, Options]:
    """The cell's machine, and what a run on it has beside. Raises UsageError without a fitted profile for the CPU."""
    if cell.profile:
        return load_profile(cell.profile, cell.kv_tokens), Options(host_kv_tokens=cell.host_kv_tokens)
    if around.cpu_profile is None:
        raise SystemExit(f"the cell {cell.name} needs --cpu-profile FILE, as andes-jax profile writes it")
    profile = load_profile(around.cpu_profile)
    return profile, Options(host_kv_tokens=4 * profile.kv_tokens if profile.copy_page_s > 0 else 0)


def workload(cell: Cell, around: Surroundings, profile: Profile) -> Workload:
    """What the cell makes of its trace, at rate 1 and without an end."""
    scale, longest = 1.0, cell.max_tokens
    if not cell.profile:
        scale, longest = around.cpu_scale, min(8192, profile.max_model_len, profile.kv_tokens)
    return Workload(
        process=None if cell.process is None else parse_process(cell.process),
        readers=parse_readers(cell.readers),
        length_scale=scale,
        max_tokens=longest,
        min_output_tokens=cell.min_output,
    )


def arrivals_of(job: Job, around: Surroundings, capacities: dict[str, float]) -> list[Arrival]:
    """The requests of a run. `capacities`: requests per second, of the cell and of its batch work, where needed."""
    cell = CELLS[job.cell]
    base = workload(cell, around, machine(cell, around)[0])
    found: list[Arrival] = []
    if job.mix != "batch alone":
        rate = job.rate * capacities["requests"] if cell.of_capacity else job.rate
        rows = rows_of(around.traces / cell.trace)
        if base.process is None:
            window = fitting(replayed(rows, job.seed), base)
            if cell.of_capacity:
                rate *= (REPLAY_END_S - REPLAY_START_S) / len(window)
            rows = tiled(window, job.window_s * rate)
        found = make_arrivals(rows, replace(base, rate=rate, duration_s=job.window_s), job.seed)
    if cell.with_batch and job.mix != "realtime alone":
        count = math.ceil(BATCH_SURPLUS * capacities["batch"] * job.window_s)
        found = [*batch_arrivals(around, base.max_tokens, count, job.seed), *found]
    return found


def batch_arrivals(around: Surroundings, max_tokens: int | None, count: int, seed: int) -> list[Arrival]:
    """So many summaries to be written, asked for all at once at second 0."""
    pool = Workload(process=parse_process("poisson"), rate=1.25 * count + 32, duration_s=1.0, max_tokens=max_tokens)
    drawn = make_arrivals(rows_of(around.traces / ARXIV), pool, seed)[:count]
    return [replace(arrival, arrived_s=0.0, tier=Tier.BATCH, qoe=None) for arrival in drawn]


@lru_cache(maxsize=4)
def rows_of(path: Path) -> Sequence[TraceRow]:
    """A trace's rows."""
    return read_trace(path)


def replayed(rows: Sequence[TraceRow], seed: int) -> list[TraceRow]:
    """The stretch of the trace that is replayed, begun elsewhere for each seed, with times from 0."""
    length_s = REPLAY_END_S - REPLAY_START_S
    shifted = [
        row._replace(arrived_s=(row.arrived_s - REPLAY_START_S - seed * SEED_SHIFT_S) % length_s)
        for row in rows
        if row.arrived_s is not None and REPLAY_START_S <= row.arrived_s < REPLAY_END_S
    ]
    return sorted(shifted, key=lambda row: row.arrived_s or 0.0)


def tiled(rows: Sequence[TraceRow], trace_s: float) -> list[TraceRow]:
    """The stretch as often as it takes to fill so many seconds of the trace's own time."""
    length_s = REPLAY_END_S - REPLAY_START_S
    times = range(max(1, math.ceil(trace_s / length_s)))
    return [row._replace(arrived_s=(row.arrived_s or 0.0) + index * length_s) for index in times for row in rows]


def capacity(cell: Cell, around: Surroundings, *, batch: bool = False) -> float:
    """Requests per second that fcfs ends while more than enough wait: between a quarter and three quarters of them."""
    profile, options = machine(cell, around)
    base = workload(cell, around, profile)
    count = max(4 * profile.max_sequences, 128)
    if batch:
        arrivals = batch_arrivals(around, base.max_tokens, count, 0)
    else:
        rows = rows_of(around.traces / cell.trace)
        if base.process is None:
            rows = replayed(rows, 0)
        drawn = replace(base, process=parse_process("poisson"), rate=1.25 * count + 32, duration_s=1.0)
        arrivals = [replace(arrival, arrived_s=0.0) for arrival in make_arrivals(rows, drawn, 0)[:count]]
    outcomes = simulate(arrivals, profile, "fcfs", options).outcomes
    ends = sorted(outcome.latency_s for outcome in outcomes if outcome.latency_s is not None)
    first, last = len(ends) // 4, 3 * len(ends) // 4
    return (last - first) / (ends[last] - ends[first])
