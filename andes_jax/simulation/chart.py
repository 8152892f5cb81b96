"""A sweep as a picture: quality against rate, and for each tier how long its readers wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from andes_jax.simulation.report import TARGET_QOE, Point, tiers_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Paul Tol's "bright" scheme, told apart by the colour-blind; markers tell apart what is printed in grey.
_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#555555")
_MARKERS = "osD^vPX"
_PANEL_IN = (4.6, 3.3)
_DPI = 150
_WIDE = 10.0  # from here on between lowest and highest the scale is logarithmic
_TICKS = 10  # rates that are written out at most


def draw(path: Path, found: Sequence[Point], title: str, rate_words: str) -> None:
    """Write the picture as PNG. Raises ImportError without matplotlib, OSError when it cannot be written."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tiers = tiers_of(found)
    rows = (("ttft_p99", "Time to the first token, P99"), ("waited_p99", "Wait, P99"))
    # One tier has its two panels side by side; several have a row for each figure.
    spots = [(1, 0), (1, 1)] if len(tiers) == 1 else [(row, column) for row in (1, 2) for column in range(len(tiers))]
    columns, height = max(2, len(tiers)), 1 + spots[-1][0]
    size = (_PANEL_IN[0] * columns, _PANEL_IN[1] * height + 0.5)
    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    grid = figure.add_gridspec(height, columns)
    _quality(figure.add_subplot(grid[0, : columns - 1]), found)
    _panel(figure.add_subplot(grid[0, columns - 1]), found, "latency_mean", "all", "Time to the last token, mean")
    first: Axes | None = None
    for index, (row, column) in enumerate(spots):
        (name, words), tier = rows[index // len(tiers)], tiers[index % len(tiers)]
        if index % len(tiers) == 0:
            first = None
        axes = figure.add_subplot(grid[row, column], sharey=first)
        first = first or axes
        _panel(axes, found, name, tier, f"{words}: {tier}")
        if row == height - 1:
            axes.set_xlabel(rate_words)
    figure.savefig(path, format="png")


def _quality(axes: Axes, found: Sequence[Point]) -> None:
    seeds = max(len(point.results) for point in found)
    shaded = "" if seeds == 1 else f"; shaded: from the lowest to the highest of {seeds} seeds"
    lowest = _panel(axes, found, "qoe_mean", "all", f"Mean quality of experience (v2){shaded}")
    axes.set_ylabel("QoE")
    axes.set_yscale("linear")
    axes.set_ylim(min(0.5, math.floor(lowest * 10) / 10), 1.02)
    axes.axhline(TARGET_QOE, color="#444444", linewidth=1.1, linestyle=(0, (4, 3)), zorder=2)
    axes.legend(loc="lower left", frameon=False, ncols=1 + len(axes.get_lines()) // 6)


def _panel(axes: Axes, found: Sequence[Point], name: str, tier: str, title: str) -> float:
    """A line of seconds for each contender with its range over seeds; returns the lowest value."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_title(title, fontsize=10, loc="left")
    axes.set_ylabel("seconds")
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    every: list[float] = []
    for index, contender in enumerate(dict.fromkeys(point.contender for point in found)):
        own = [(point.rate, point.values(name, tier)) for point in found if point.contender == contender]
        own = [(rate, values) for rate, values in own if len(values)]
        rates = [rate for rate, _ in own]
        lowest, means, highest = ([float(of(values)) for _, values in own] for of in (np.min, np.mean, np.max))
        every += [*lowest, *highest]
        colour, marker = _COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)]
        axes.plot(rates, means, color=colour, marker=marker, markersize=4.5, linewidth=1.8, label=contender, zorder=3)
        axes.fill_between(rates, lowest, highest, color=colour, alpha=0.15, linewidth=0, zorder=2)
    rates = sorted({point.rate for point in found})
    if len(rates) <= _TICKS:
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    if not every:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", color="#777777")
        return 1.0
    if 0 < min(every) < max(every) / _WIDE:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    return min(every)
