"""Policies side by side: runs them, and shows what came of it as tables, a file and a picture."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from andes_jax.commands.progress import progress_bar
from andes_jax.commands.study import console, own_demand
from andes_jax.simulation.contender import Contender
from andes_jax.simulation.report import TARGET_QOE, Point, points, sustained, tiers_of, write_csv
from andes_jax.simulation.sweep import Cell, Result, Study, cells, runs

_FIGURES = (  # heading, field, format
    ("QoE", "qoe_mean", ".3f"),
    ("worst tenth", "qoe_p10", ".3f"),
    ("TTFT P50", "ttft_p50", ".2f"),
    ("P99", "ttft_p99", ".2f"),
    ("wait P99", "waited_p99", ".2f"),
    ("latency", "latency_mean", ".1f"),
    ("tokens/s", "tokens_per_s", ".0f"),
    ("good/s", "goodput", ".2f"),
    ("preempted", "preemptions", ".2f"),
    ("cache", "held", ".0%"),
    ("refused", "refused", ".0f"),
)
_TIER_FIGURES = (("QoE", "qoe_mean", ".3f"), ("TTFT P99", "ttft_p99", ".2f"), ("wait P99", "waited_p99", ".2f"))


def compare(
    study: Study, contenders: Sequence[Contender], rates: Sequence[float], seeds: int, processes: int, folder: Path
) -> None:
    """Tables go to the terminal, table.csv and chart.png into the folder, which exists."""
    began = time.perf_counter()
    results = _run_all(study, cells(rates, contenders, seeds), processes)
    found = points(results)
    out = console()
    for table in _tables(found):
        out.print(table)
        out.print()
    _say_limits(out, found)
    simulated_s = sum(result.figures.duration_s for result in results)
    out.print(
        f"{len(results)} runs of {study.profile.name}, {simulated_s / 60:.1f} simulated minutes in "
        f"{time.perf_counter() - began:.0f} s"
    )
    write_csv(folder / "table.csv", results)
    out.print(f"every figure: {folder / 'table.csv'}")
    _draw(out, folder / "chart.png", study, found)


def _run_all(study: Study, wanted: list[Cell], processes: int) -> list[Result]:
    """The results of all these runs, in their order."""
    found: dict[Cell, Result] = {}
    words = f"{len(wanted)} runs"
    with runs(study, min(processes, len(wanted))) as run_all, progress_bar(words, len(wanted)) as tell:
        for result in run_all(wanted):
            found[result.cell] = result
            tell(f"{result.cell.contender.label} at {result.cell.rate:g}")
    return [found[cell] for cell in wanted]


def _tables(found: Sequence[Point]) -> list[Table]:
    """All requests together, and then by tier where there are several."""
    figures = [(heading, field, style, "all") for heading, field, style in _FIGURES]
    if not any(point.mean("refused") for point in found):
        figures.pop()
    tables = [_table(found, figures)]
    tiers = tiers_of(found)
    if len(tiers) > 1:
        tables.append(
            _table(
                found,
                [(f"{tier} {name}", field, style, tier) for tier in tiers for name, field, style in _TIER_FIGURES],
            )
        )
    return tables


def _table(found: Sequence[Point], figures: Sequence[tuple[str, str, str, str]]) -> Table:
    """Means over seeds, a row for each rate and contender; `figures` are (heading, field, format, tier)."""
    chosen = [each for each in figures if any(point.mean(each[1], each[3]) is not None for point in found)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("rate", justify="right")
    table.add_column("policy", no_wrap=True)
    for heading, *_ in chosen:
        table.add_column(heading, justify="right")
    before = None
    for point in found:
        values = [point.mean(field, tier) for _, field, _, tier in chosen]
        shown = [
            "-" if value is None else format(value, style)
            for value, (_, _, style, _) in zip(values, chosen, strict=True)
        ]
        table.add_row("" if point.rate == before else f"{point.rate:g}", point.contender, *shown)
        before = point.rate
    return table


def _say_limits(out: Console, found: Sequence[Point]) -> None:
    """Up to which rate each policy keeps its readers content, and how that compares with first come, first served."""
    if not any(point.mean("qoe_mean") is not None for point in found):
        return
    contenders = list(dict.fromkeys(point.contender for point in found))
    fair, fair_limited = sustained(found, "fcfs")
    for contender in contenders:
        rate, limited = sustained(found, contender)
        if rate is None:
            words = f"is below {TARGET_QOE} already at the lowest rate"
        elif not limited:
            words = f"stays at {TARGET_QOE} or above at every rate"
        else:
            words = f"stays at {TARGET_QOE} or above up to rate {rate:.2f}"
            if fair is not None and fair_limited and contender != "fcfs":
                words += f", {rate / fair:.2f} times fcfs's"
        out.print(f"mean QoE of {contender} {words}")


def _draw(out: Console, path: Path, study: Study, found: Sequence[Point]) -> None:
    from andes_jax.simulation.chart import draw

    per_s, _ = own_demand(study)
    words = "requests per second"
    if study.workload.process is None:
        words = f"rate, times the trace's {per_s:.2g} requests/s" if per_s else "rate, times the trace's own"
    cache = f"{study.profile.kv_tokens:,} tokens of cache"
    title = f"{study.profile.name}, {cache}, prediction: {study.options.predict}"
    try:
        draw(path, found, title, words)
    except ImportError:
        out.print(r"no picture: matplotlib is missing (pip install 'andes-jax\[plots]' brings it)")
        return
    out.print(f"picture: {path}")
