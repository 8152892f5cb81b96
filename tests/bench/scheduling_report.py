"""The scheduling study's Markdown and picture of one cell, from the runs in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from andes_jax.simulation.chart import draw
from andes_jax.simulation.contender import Contender
from andes_jax.simulation.report import TARGET_QOE, Point
from andes_jax.simulation.sweep import Cell as Shown
from andes_jax.simulation.sweep import Result
from tests.bench.scheduling_cells import (
    ABLATIONS,
    BATCH_MIXES,
    LATENCY_CHANGES,
    POLICIES,
    THREE_TIER,
    Cell,
    Entry,
)  # fmt: skip
from tests.bench.scheduling_runs import Record

CAPACITY_WORDS = {"requests": "requests", "batch": "batch requests"}
PUNCTUAL = 0.99  # of first tokens are to come when they are expected
Value = Callable[[Record], float | None]
Table = list[list[str]]


def figure(name: str, tier: str = "all") -> Value:
    """A field of Summary."""

    def value(record: Record) -> float | None:
        summary = record.figures.summary.get(tier)
        return None if summary is None else getattr(summary, name)

    return value


def windowed(name: str, tier: str = "all") -> Value:
    """A figure of the arrival window."""
    return lambda record: record.extra.get(tier, {}).get(name)


COLUMNS: tuple[tuple[str, Value, int], ...] = (
    ("QoE", figure("qoe_mean"), 3),
    ("QoE P10", figure("qoe_p10"), 2),
    ("perfect", figure("perfect"), 2),
    ("in time", windowed("punctual"), 3),
    ("TTFT P50 s", figure("ttft_p50"), 2),
    ("TTFT P99 s", figure("ttft_p99"), 2),
    ("latency s", figure("latency_mean"), 2),
    ("wait P99 s", figure("waited_p99"), 2),
    ("tokens/s", windowed("tokens_per_s"), 0),
    ("preempted", figure("preemptions"), 2),
)
BATCH_COLUMNS: tuple[tuple[str, Value, int], ...] = (
    ("TTFT P50 ms", lambda one: _thousand(figure("ttft_p50", "realtime")(one)), 0),
    ("TTFT P99 ms", lambda one: _thousand(figure("ttft_p99", "realtime")(one)), 0),
    ("wait mean ms", lambda one: _thousand(windowed("waited_mean", "realtime")(one)), 1),
    ("QoE", figure("qoe_mean", "realtime"), 3),
    ("realtime tokens/s", windowed("tokens_per_s", "realtime"), 0),
    ("batch tokens/s", windowed("tokens_per_s", "batch"), 0),
    ("all tokens/s", windowed("tokens_per_s"), 0),
    ("and of prompts", windowed("prompt_tokens_per_s"), 0),
    ("busy", lambda one: one.figures.busy, 3),
)


def values_of(records: Iterable[Record], value: Value) -> list[float]:
    """One of each run that has it."""
    return [found for found in map(value, records) if found is not None]


def spread(records: Sequence[Record], value: Value, digits: int) -> str:
    """The mean over seeds, with the lowest and highest where they differ."""
    found = values_of(records, value)
    if not found:
        return "-"
    low, mean, high = (f"{of(found):.{digits}f}" for of in (np.min, np.mean, np.max))
    return mean if low == high else f"{mean} ({low}-{high})"


def ratio(records: Sequence[Record], others: Sequence[Record], value: Value) -> str:
    """How many times the others' mean."""
    mine, theirs = values_of(records, value), values_of(others, value)
    return f"{np.mean(mine) / np.mean(theirs):.2f}" if mine and theirs and np.mean(theirs) else "-"


def markdown(head: Sequence[str], rows: Table) -> list[str]:
    """A table."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)] + [""]


def crossing(points: Sequence[tuple[float, float]], target: float) -> tuple[float | None, bool]:
    """Up to which rate values stay at the target, by straight lines between (rate, value) by rate, and whether it is
    missed at all; None: it is missed already at the lowest rate."""
    last: tuple[float, float] | None = None
    for rate, value in points:
        if value < target:
            if last is None:
                return None, True
            return last[0] + (rate - last[0]) * (last[1] - target) / (last[1] - value), True
        last = (rate, value)
    return (None if last is None else last[0]), False


def carried(records: Sequence[Record], value: Value, target: float) -> tuple[float | None, bool]:
    """`crossing` of the means over seeds."""
    rates = sorted({one.job.rate for one in records})
    means = [(rate, values_of(_at(records, rate), value)) for rate in rates]
    return crossing([(rate, float(np.mean(found))) for rate, found in means if found], target)


def _words(found: tuple[float | None, bool], records: Sequence[Record]) -> str:
    rate, missed = found
    if rate is None:
        return f"below {min(one.job.rate for one in records):g}" if missed else "-"
    return f"{rate:.2f}" if missed else f"above {rate:g}"


def _at(records: Iterable[Record], rate: float | None) -> list[Record]:
    return [one for one in records if one.job.rate == rate]


def _thousand(value: float | None) -> float | None:
    return None if value is None else 1000 * value


def _rate_tables(cell: Cell, groups: dict[Entry, list[Record]]) -> list[str]:
    quality, latency, tokens = figure("qoe_mean"), figure("latency_mean"), windowed("tokens_per_s")
    fcfs, oracle = groups.get(Entry("fcfs"), []), groups.get(Entry("sjf_oracle"), [])
    base = carried(fcfs, quality, TARGET_QOE)[0]
    limits: Table = []
    rows: Table = []
    for entry, records in groups.items():
        rate = carried(records, quality, TARGET_QOE)
        seeds = sorted({one.job.seed for one in records})
        of_seeds = [carried([one for one in records if one.job.seed == seed], quality, TARGET_QOE) for seed in seeds]
        times = f"{rate[0] / base:.2f}" if rate[0] is not None and base is not None else "-"
        punctual = carried(records, windowed("punctual"), PUNCTUAL)
        each = ", ".join(_words(found, records) for found in of_seeds)
        limits.append([entry.label, _words(rate, records), each, times, _words(punctual, records)])
    for tried in cell.rates:
        for entry, records in groups.items():
            own = _at(records, tried)
            if own:
                compared = [
                    ratio(own, _at(others, tried), value)
                    for others, value in ((fcfs, tokens), (fcfs, latency), (oracle, latency))
                ]
                shown = [spread(own, value, digits) for _, value, digits in COLUMNS]
                rows.append([f"{tried:g}", entry.label, *shown, *compared])
    return [
        f"Rates are {cell.rate_words}. The highest rate with a mean QoE (v2) of at least {TARGET_QOE}, and the highest "
        f"at which {PUNCTUAL:.0%} of first tokens come within the time expected, by straight lines between the rates "
        "tried:",
        "",
        *markdown(("policy", f"rate at QoE {TARGET_QOE}", "by seed", "times fcfs", "rate in time"), limits),
        "Means over seeds (lowest-highest). Tokens per second are those delivered within the arrival window.",
        "",
        *markdown(
            ("rate", "policy", *(name for name, _, _ in COLUMNS), "tokens / fcfs", "latency / fcfs", "latency / sjf"),
            rows,
        ),
    ]


def _probe(title: str, cell: Cell, records: Sequence[Record], entries: Sequence[Entry]) -> list[str]:
    tokens, latency = windowed("tokens_per_s"), figure("latency_mean")
    at_rate = _at(records, cell.probe_rate)
    found = {entry: [one for one in at_rate if one.job.entry == entry] for entry in entries}
    fcfs, rows = found[Entry("fcfs")], []
    for entry, own in found.items():
        if own:
            shown = [spread(own, value, digits) for _, value, digits in COLUMNS]
            rows.append([entry.label, *shown, ratio(own, fcfs, tokens), ratio(own, fcfs, latency)])
    head = ("policy", *(name for name, _, _ in COLUMNS), "tokens / fcfs", "latency / fcfs")
    return [f"## {title}, at rate {cell.probe_rate:g}", "", *markdown(head, rows)]


def _batch_table(records: Sequence[Record]) -> list[str]:
    rows: Table = []
    for mix in BATCH_MIXES:
        for entry in dict.fromkeys(one.job.entry for one in records):
            own = [one for one in records if one.job.mix == mix and one.job.entry == entry]
            if own:
                rows.append([mix, entry.label, *(spread(own, value, digits) for _, value, digits in BATCH_COLUMNS)])
    return markdown(("requests", "policy", *(name for name, _, _ in BATCH_COLUMNS)), rows)


def write_report(folder: Path, cell: Cell, records: Sequence[Record], capacities: dict[str, float]) -> None:
    """Writes scheduling-CELL.md, and scheduling-CELL.png where there are several rates."""
    windows = sorted({one.job.window_s for one in records})
    seeds, sources = len({one.job.seed for one in records}), sorted({one.source for one in records})
    kv_tokens = "the profile's cache" if cell.kv_tokens is None else f"{cell.kv_tokens} tokens of cache"
    lines = [
        f"# {cell.name}",
        "",
        f"{cell.profile or 'a fitted profile of a CPU'}, {kv_tokens}, {cell.trace}, "
        f"arrivals {cell.process or 'as recorded, repeated'}, {cell.readers} readers, "
        f"{seeds} seeds, requests come for {', '.join(f'{window:g}' for window in windows)} s.",
        *(f"Capacity under fcfs: {per_s:.3g} {CAPACITY_WORDS[name]} per second." for name, per_s in capacities.items()),
        f"Source {', '.join(sources)}.",
        "" if len(sources) == 1 else "\n**Runs of different states of the source are mixed here.**\n",
    ]
    if cell.with_batch:
        lines += _batch_table(records)
    else:
        groups = {entry: [one for one in records if one.job.entry == entry] for entry in POLICIES}
        groups = {entry: own for entry, own in groups.items() if own}
        lines += _rate_tables(cell, groups)
        base = (Entry("fcfs"), Entry("sjf_oracle"), THREE_TIER)
        for part, title, changes in (("ablations", "Ablations", ABLATIONS), ("latency", "Latency", LATENCY_CHANGES)):
            changed = [Entry(f"three_tier:{change}", THREE_TIER.predict) for change in changes]
            if part in cell.parts and any(one.job.entry in changed for one in records):
                lines += _probe(title, cell, records, [*base, *changed])
        draw(folder / f"scheduling-{cell.name}.png", _points(cell, groups), cell.name, f"Rate, {cell.rate_words}")
    (folder / f"scheduling-{cell.name}.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _points(cell: Cell, groups: dict[Entry, list[Record]]) -> list[Point]:
    points = []
    for rate in cell.rates:
        for entry, records in groups.items():
            shown = Shown(rate, Contender(entry.label), 0)
            own = tuple(Result(shown, one.figures) for one in _at(records, rate))
            if own:
                points.append(Point(entry.label, rate, own))
    return points
