"""andes-jax profile-stream: what a log of `serve --profile-streaming` says of where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from andes_jax.commands.failure import CommandError

if TYPE_CHECKING:
    from rich.table import Table

    from andes_jax.profiling.summary import TierSummary


def profile_stream(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="What the server logged, also as .gz.")],
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw each chunk's intervals over time into this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Say where the time between tokens and their readers goes, from a log of `serve --profile-streaming`.

    For each tier: the time steps worked on a token (generation, at most 100 ms), the time no step did (wait, 30 ms) and
    the time from a token's being known to its being handed to the network (send, 50 ms); how many chunks broke each
    bound, and the likely causes. Other lines of the log are passed over.

    Examples:

      andes-jax serve --profile-streaming 2> server.log
      andes-jax profile-stream server.log --plot timeline.png
    """
    from andes_jax.profiling.summary import read_chunks, summarise
    from andes_jax.profiling.timeline import draw_timeline

    chunks = list(read_chunks(log))
    if not chunks:
        raise CommandError(f"{log} tells of no chunks; was the server started with --profile-streaming, and asked?")
    if plot is not None:
        draw_timeline(chunks, plot)
    summaries = summarise(chunks)
    if as_json:
        import orjson

        told = orjson.dumps([asdict(summary) for summary in summaries], option=orjson.OPT_INDENT_2)
        typer.echo(told)
        return
    from rich.console import Console

    Console().print(table(summaries))


def table(summaries: Sequence[TierSummary]) -> Table:
    """The summary for a terminal."""
    from rich.table import Table

    from andes_jax.profiling.chunk import BOUNDS_MS

    shown = Table("tier", "interval", "P50 ms", "P90 ms", "P99 ms", "longest ms", "above bound", "likely causes")
    for summary in summaries:
        about = f"{summary.tier}\n{summary.requests} calls\n{summary.chunks} chunks\n{summary.tokens} tokens"
        for interval in summary.intervals:
            times = (interval.p50_ms, interval.p90_ms, interval.p99_ms, interval.longest_ms)
            share = interval.broke / summary.chunks
            shown.add_row(
                about,
                interval.name,
                *(f"{value:.1f}" for value in times),
                f"{interval.broke} ({share:.1%}) of {BOUNDS_MS[interval.name]:.0f} ms",
                "\n".join(f"{cause} ({count})" for cause, count in interval.causes),
            )
            about = ""
        shown.add_section()
    return shown
