"""A log of chunks as a picture: the three intervals of each chunk over time, with their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from andes_jax.failure import UserError
from andes_jax.profiling.chunk import BOUNDS_MS, Chunk

WORDS = {
    "generation": "generation, ms\n(steps worked on it)",
    "send": "send, ms\n(known to handed over)",
    "wait": "wait, ms\n(no step worked on it)",
}
LEAST_MS = 0.01  # intervals below it are drawn there, as the axis is logarithmic


class TimelineError(UserError):
    """The picture cannot be drawn."""


def draw_timeline(chunks: Sequence[Chunk], path: Path) -> None:
    """Draw into a PNG file. Raises TimelineError without chunks or matplotlib, OSError for the file."""
    if not chunks:
        raise TimelineError("there are no chunks to draw")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TimelineError('--plot needs matplotlib; install "andes-jax[plots]"') from None
    figure = Figure(figsize=(11, 8), layout="constrained")
    start_s = min(chunk.at_s for chunk in chunks)
    tiers = sorted({chunk.tier for chunk in chunks})
    for axes, (name, bound) in zip(figure.subplots(3, 1, sharex=True), BOUNDS_MS.items(), strict=True):
        for tier in tiers:
            own = [chunk for chunk in chunks if chunk.tier == tier]
            axes.plot(
                [chunk.at_s - start_s for chunk in own],
                [max(chunk.interval_ms(name), LEAST_MS) for chunk in own],
                ".",
                markersize=3,
                label=tier,
            )
        axes.axhline(bound, color="black", linewidth=0.8, linestyle="--")
        axes.set_yscale("log")
        axes.set_ylabel(WORDS[name])
        late = sum(name in chunk.broke for chunk in chunks)
        axes.set_title(f"{late} of {len(chunks)} chunks above {bound:.0f} ms", fontsize="small", loc="right")
    axes.set_xlabel("seconds from the first chunk")
    axes.legend()
    figure.savefig(path, format="png")
