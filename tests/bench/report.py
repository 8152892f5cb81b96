"""Turns samples into medians and a Markdown table with ratios to a reference peer."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from load_client import Cell, Sample


@dataclass(frozen=True)
class Summary:
    """One cell of one peer: median and range in the cell's unit over the samples kept, and how many were not."""

    median: float | None
    lowest: float | None
    highest: float | None
    kept: int
    dropped: int


@dataclass
class PeerResult:
    """All that was measured of one peer, over all rounds; `memory_mib` is the most seen after a round."""

    name: str
    url: str
    command: str
    version: str = ""
    memory_mib: float = 0.0
    ready_s: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


def summarize(samples: list[Sample], cell: Cell, max_other_cpu: float) -> Summary:
    """Medians of the samples during which other processes used at most `max_other_cpu` (0 to 1) of the CPUs."""
    of_cell = [sample for sample in samples if sample.cell == cell.name]
    kept = [sample.value for sample in of_cell if sample.other_cpu <= max_other_cpu]
    dropped = len(of_cell) - len(kept)
    if not kept:
        return Summary(None, None, None, 0, dropped)
    return Summary(statistics.median(kept), min(kept), max(kept), len(kept), dropped)


def speed_ratio(cell: Cell, value: float | None, reference: float | None) -> float | None:
    """How many times as fast as the reference: above 1 is better, for times as well as for rates."""
    if value is None or reference is None:
        return None
    return value / reference if cell.higher_is_better else reference / value


def markdown(results: list[PeerResult], cells: list[Cell], reference: str, max_other_cpu: float) -> str:
    """A table with one row a peer: each median, then in brackets its ratio to the peer named `reference`."""
    summaries = {
        result.name: {cell.name: summarize(result.samples, cell, max_other_cpu) for cell in cells} for result in results
    }
    header = ["peer", *(f"{cell.name} {cell.unit}" for cell in cells), "memory MiB", "samples dropped"]
    rows = [header, ["---"] * len(header)]
    for result in results:
        row = [result.name]
        for cell in cells:
            summary = summaries[result.name][cell.name]
            ratio = speed_ratio(cell, summary.median, summaries[reference][cell.name].median)
            row.append(_cell_text(summary, ratio))
        dropped = sum(summary.dropped for summary in summaries[result.name].values())
        rows.append([*row, f"{result.memory_mib:.0f}", f"{dropped} of {len(result.samples)}"])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\nIn brackets: times as fast as {reference}, above 1 is better.\n"


def _cell_text(summary: Summary, ratio: float | None) -> str:
    if summary.median is None:
        return "none kept"
    value = f"{summary.median:.1f}" if summary.median < 100 else f"{summary.median:.0f}"
    return value if ratio is None else f"{value} ({ratio:.2f})"
