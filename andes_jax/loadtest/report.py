"""What a run, or two of them side by side, look like on a terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table

from andes_jax.loadtest.record import LATE_S, Run
from andes_jax.workload.outcome import Summary, summarise

_MAX_ERRORS = 5

_Figure = tuple[str, Callable[[Summary], float | None], str]  # label, value, format


def _ms(name: str) -> Callable[[Summary], float | None]:
    """A time of the summary in milliseconds."""

    def value(summary: Summary) -> float | None:
        seconds: float | None = getattr(summary, name)
        return None if seconds is None else seconds * 1000

    return value


def _of(name: str) -> Callable[[Summary], float | None]:
    def value(summary: Summary) -> float | None:
        found: float | None = getattr(summary, name)
        return found

    return value


FIGURES: tuple[_Figure, ...] = (
    ("requests", _of("requests"), "d"),
    ("finished", _of("finished"), "d"),
    ("failed", _of("failed"), "d"),
    ("refused", _of("refused"), "d"),
    ("left before the first token", _of("interrupted"), "d"),
    ("left later", _of("cancelled"), "d"),
    ("unfinished", _of("unfinished"), "d"),
    ("QoE mean", _of("qoe_mean"), ".3f"),
    ("QoE P10", _of("qoe_p10"), ".3f"),
    ("QoE perfect, share", _of("perfect"), ".3f"),
    ("QoE v1 mean", _of("qoe_v1_mean"), ".3f"),
    ("TTFT P50, ms", _ms("ttft_p50"), ".1f"),
    ("TTFT P90, ms", _ms("ttft_p90"), ".1f"),
    ("TTFT P99, ms", _ms("ttft_p99"), ".1f"),
    ("ITL P50, ms", _ms("itl_p50"), ".1f"),
    ("ITL P99, ms", _ms("itl_p99"), ".1f"),
    ("TPOT mean, ms", _ms("tpot_mean"), ".1f"),
    ("latency mean, s", _of("latency_mean"), ".2f"),
    ("latency P99, s", _of("latency_p99"), ".2f"),
    ("waited P99, ms", _ms("waited_p99"), ".1f"),
    ("preemptions, mean", lambda summary: summary.preemptions or None, ".2f"),  # few servers tell
    ("output tokens/s", _of("tokens_per_s"), ".1f"),
    ("requests/s", _of("requests_per_s"), ".3f"),
    ("goodput, requests/s", _of("goodput"), ".3f"),
)


def summaries(run: Run) -> dict[str, Summary]:
    """A run's figures for "all" and for each tier."""
    return summarise(run.outcomes, run.duration_s)


def summary_table(tiers: Mapping[str, Summary]) -> Table:
    """Figures as rows, tiers as columns. Figures that no tier has are left out."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in tiers:
        table.add_column(name, justify="right")
    for label, value, form in FIGURES:
        values = [value(summary) for summary in tiers.values()]
        if any(each is not None for each in values):
            table.add_row(label, *(_shown(each, form) for each in values))
    return table


def comparison_table(first: Run, second: Run) -> Table:
    """For each tier and figure: the first run, the second, and the second over the first."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("tier", "figure", "first", "second", "ratio"):
        table.add_column(column, justify="left" if column in ("tier", "figure") else "right")
    one, two = summaries(first), summaries(second)
    for tier in [*one, *(name for name in two if name not in one)]:
        if tier not in one or tier not in two:
            table.add_row(tier, f"only in the {'first' if tier in one else 'second'} run")
            continue
        for label, value, form in FIGURES:
            before, after = value(one[tier]), value(two[tier])
            if before is not None or after is not None:
                table.add_row(tier, label, _shown(before, form), _shown(after, form), _ratio(before, after))
    return table


def as_json(run: Run) -> dict[str, Any]:
    """A run's figures: times in seconds, null for what no request has."""
    return {
        "duration_s": run.duration_s,
        "tiers": {name: asdict(summary) for name, summary in summaries(run).items()},
        "server": server_means(run),
        "errors": dict(errors(run)),
        "unsent": run.unsent,
        "short": sum(record.short for record in run.records),
        "client": {
            "late": run.late,
            "late_p99_s": run.late_p99_s,
            "cpu_share": run.cpu_s / run.duration_s,
        },
        "about": run.about,
    }


def server_means(run: Run) -> dict[str, float]:
    """Means of what the server says of its replies in `usage.andes`, over the replies that say it."""
    names = dict.fromkeys(name for record in run.records for name in record.server)
    return {
        name: float(np.mean([record.server[name] for record in run.records if name in record.server])) for name in names
    }


def errors(run: Run) -> list[tuple[str, int]]:
    """What went wrong, most frequent first."""
    return Counter(record.error for record in run.records if record.error is not None).most_common()


def notes(run: Run) -> list[str]:
    """What one has to know beside the figures."""
    found = []
    means = server_means(run)
    if means:
        found.append(
            "the server says, on average: " + ", ".join(f"{name} {value:.4g}" for name, value in means.items())
        )
    share = run.cpu_s / run.duration_s
    found.append(f"the client was at most {run.late_p99_s * 1000:.1f} ms late (P99) and used {share:.0%} of one core")
    if run.late:
        found.append(f"WARNING: more than {LATE_S * 1000:.0f} ms late; the figures are not the server's alone")
    if short := sum(record.short for record in run.records):
        found.append(f"{short} replies ended with fewer tokens than asked for")
    if off := _prompts_off(run):
        found.append(f"prompts had {off:+.1%} tokens compared with what was asked for")
    if run.unsent:
        found.append(f"the run was cut short: {run.unsent} requests were not sent")
    wrong = errors(run)
    found += [f"{count} times: {error}" for error, count in wrong[:_MAX_ERRORS]]
    if len(wrong) > _MAX_ERRORS:
        found.append(f"and {len(wrong) - _MAX_ERRORS} other errors")
    return found


def _prompts_off(run: Run) -> float:
    pairs = [(each.prompt_tokens, each.outcome.arrival.prompt_tokens) for each in run.records if each.prompt_tokens]
    return sum(got or 0 for got, _ in pairs) / sum(asked for _, asked in pairs) - 1 if pairs else 0.0


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _ratio(before: float | None, after: float | None) -> str:
    return "–" if not before or after is None else f"{after / before:.3f}"
