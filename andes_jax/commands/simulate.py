"""andes-jax simulate: what policies do to readers, on a machine one need not have."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from andes_jax.commands.study import console, own_demand, progress_bar, takes_study
from andes_jax.failure import UsageError
from andes_jax.simulation.contender import parse_contenders
from andes_jax.simulation.report import TARGET_QOE, Point, points, sustained, tiers_of, write_csv
from andes_jax.simulation.sweep import Cell, Result, Study, cells, runs

MOST_RATES = 200
DEFAULT_STEP = 0.1


@takes_study
def simulate(
    study: Study,
    policy: Annotated[
        str,
        typer.Option(
            metavar="A,B,…",
            help="Policies to compare: three_tier, fcfs, round_robin, andes_paper, sjf_oracle; with changes as in "
            "three_tier:beta=0:max_preempt=0.",
        ),
    ] = "three_tier,fcfs",
    rate: Annotated[
        str,
        typer.Option(
            metavar="FROM:TO[:STEP]",
            help="Rates to try, or a list with commas: times the trace's own rate, or requests per second with "
            f"--arrivals. STEP is {DEFAULT_STEP} unless given.",
        ),
    ] = "1",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each policy at each rate, by chance alike.")] = 1,
    processes: Annotated[int, typer.Option(min=1, max=1024, help="Runs at the same time.")] = 2,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where table.csv and chart.png go.")] = Path("simulation"),
) -> None:
    """Simulate a trace on a modelled machine under several policies and rates: a table, a CSV file and a picture.

    The scheduler is the one that serves; only the device is modelled. Every request counts, refused ones too.
    QoE is the quality of experience of the Andes paper, version 2, in [0, 1].

    Examples:

      andes-jax simulate --trace azure.csv --policy three_tier,fcfs --rate 0.5:4:0.5
      andes-jax simulate --trace azure.csv --kv-tokens 60000 --rate 1:4 --seeds 3 --predict 0.6 --end 600
      andes-jax simulate --trace lengths.csv.gz --arrivals gamma:2 --rate 2,4,8 --profile a100-40gb:llama-2-13b
      andes-jax simulate --trace requests.jsonl --policy three_tier,three_tier:beta=0 --tiers realtime=0.5,batch=0.5
    """
    contenders = parse_contenders(policy)
    rates = parse_rates(rate)
    output.mkdir(parents=True, exist_ok=True)
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
        f"{len(results)} runs of {study.profile.name}, {simulated_s / 60:.0f} simulated minutes in "
        f"{time.perf_counter() - began:.0f} s"
    )
    write_csv(output / "table.csv", results)
    out.print(f"every figure: {output / 'table.csv'}")
    _draw(out, output / "chart.png", study, found)


def _run_all(study: Study, wanted: list[Cell], processes: int) -> list[Result]:
    """The results of all these runs, in their order."""
    found: dict[Cell, Result] = {}
    words = f"{len(wanted)} runs"
    with runs(study, min(processes, len(wanted))) as run_all, progress_bar(words, len(wanted)) as tell:
        for result in run_all(wanted):
            found[result.cell] = result
            tell(f"{result.cell.contender.label} at {result.cell.rate:g}")
    return [found[cell] for cell in wanted]


def parse_rates(words: str) -> list[float]:
    """FROM:TO[:STEP], or rates with commas between them, ascending. Raises UsageError."""
    try:
        if ":" in words:
            first, last, step = [float(part) for part in f"{words}:{DEFAULT_STEP}".split(":")[:3]]
            if not (step > 0 and first <= last and len(words.split(":")) <= 3):
                raise ValueError
            count = math.floor((last - first) / step + 1e-9) + 1
            rates = [round(first + index * step, 9) for index in range(min(count, MOST_RATES + 1))]
        else:
            rates = sorted({float(part) for part in words.split(",")})
    except (ValueError, OverflowError):
        raise UsageError(f"rates {words!r}: give FROM:TO, FROM:TO:STEP, or rates such as 0.5,1,2") from None
    if not all(0 < rate < math.inf for rate in rates):
        raise UsageError(f"rates {words!r}: every rate is above 0")
    if len(rates) > MOST_RATES:
        raise UsageError(f"rates {words!r} are more than {MOST_RATES}; choose a larger step")
    return rates


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
