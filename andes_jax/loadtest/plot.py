"""A run over time, as a picture: requests under way, first tokens and throughput."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from andes_jax.failure import UserError
from andes_jax.loadtest.record import Run


class PlotError(UserError):
    """A picture cannot be drawn."""


def check_plots() -> None:
    """Raises PlotError where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError('--plot needs matplotlib; install "andes-jax[plots]"') from None


def plot_run(run: Run, path: Path) -> None:
    """Draw a run's timeline into a PNG file. Raises PlotError without matplotlib, OSError for the file."""
    check_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    load, first, tokens = figure.subplots(3, 1, sharex=True)
    load.step(*under_way(run), where="post")
    load.set_ylabel("requests under way")
    for tier in sorted({outcome.arrival.tier for outcome in run.outcomes}):
        own = [each for each in run.outcomes if each.arrival.tier is tier and each.ttft_s is not None]
        first.plot(
            [each.arrival.arrived_s for each in own],
            [each.ttft_s or 0.0 for each in own],
            ".",
            label=tier.name.lower(),
        )
    first.set_ylabel("time to the first token, s")
    first.set_yscale("log")
    first.legend()
    tokens.stairs(*throughput(run), fill=True)
    tokens.set_ylabel("output tokens/s")
    tokens.set_xlabel("seconds from the beginning")
    figure.savefig(path, format="png")


def under_way(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Times [2 n], ascending, and from each on how many requests were under way, by their last token."""
    begins = np.array([outcome.arrival.arrived_s for outcome in run.outcomes])
    ends = begins + np.array([outcome.latency_s or 0.0 for outcome in run.outcomes])
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    steps = np.concatenate([np.ones(len(begins)), -np.ones(len(ends))])
    return times[order], np.cumsum(steps[order])


def throughput(run: Run, bin_s: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Tokens per second [bins] that reached readers, and the bins' edges [bins + 1] in seconds."""
    edges = np.arange(int(run.duration_s // bin_s) + 2) * bin_s
    arrived = [outcome.arrival.arrived_s + outcome.token_times_s for outcome in run.outcomes]
    counts, _ = np.histogram(np.concatenate([np.zeros(0), *arrived]), edges)
    return counts / bin_s, edges
