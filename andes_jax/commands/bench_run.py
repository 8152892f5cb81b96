"""What `andes-jax bench` does: one measurement of a server, what is shown during it, and what is said after it."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from andes_jax.loadtest import report
from andes_jax.loadtest.connections import Connections, parse_url
from andes_jax.loadtest.dialect import Endpoint, discover
from andes_jax.loadtest.plot import plot_run
from andes_jax.loadtest.prompts import Prompts
from andes_jax.loadtest.record import Run, read_run, write_run
from andes_jax.loadtest.replay import Counts, Replay
from andes_jax.request import FinishReason
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.arrivals import Workload, fitting, make_arrivals, window
from andes_jax.workload.traces import TraceRow

_TICKS_SHOWN = 5  # the bar is drawn anew every so many ticks of a run


@dataclass
class Measurement:
    """One measurement."""

    url: str
    rows: list[TraceRow]
    workload: Workload
    prompts: Prompts
    drain_s: float
    stopped: bool = False  # by Ctrl-C

    async def measure(self, *, model: str | None, api_key: str | None, andes: bool | None) -> Run:
        """See what the server is, and run the workload against it."""
        _allow_many_connections()
        connections = Connections(parse_url(self.url))
        try:
            endpoint = await discover(connections, self.prompts, model=model, api_key=api_key, andes=andes)
            arrivals = self._arrivals(endpoint)
            with _live_counts(len(arrivals)) as show:
                replay = Replay(connections, endpoint, self.prompts, drain_s=self.drain_s, on_tick=show)
                with self._until_interrupted(replay):
                    run = await replay.run(arrivals)
        finally:
            connections.close()
        about = {"url": self.url, "model": endpoint.model, "rate": self.workload.rate, "lost": endpoint.losses}
        return replace(run, about=about)

    def _arrivals(self, endpoint: Endpoint) -> list[Arrival]:
        workload = self.workload
        if workload.max_tokens is None:
            workload = replace(workload, max_tokens=endpoint.longest)
        wanted = window(self.rows, workload.start_s, workload.end_s)
        fit = len(fitting(wanted, workload))
        left_out = len(fitting(wanted, replace(workload, max_tokens=None))) - fit
        for note in endpoint.losses:
            _tell(note)
        if left_out:
            _tell(f"{left_out} of {left_out + fit} requests have more than {workload.max_tokens} tokens: left out")
        return make_arrivals(self.rows, workload, self.prompts.seed)

    @contextmanager
    def _until_interrupted(self, replay: Replay) -> Iterator[None]:
        """Ctrl-C ends the run with what was measured; a second one ends the program."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.stopped = True
            loop.remove_signal_handler(signal.SIGINT)
            replay.stop()

        loop.add_signal_handler(signal.SIGINT, stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def finish(run: Run, *, output: Path | None, plot: Path | None, as_json: bool, stopped: bool) -> None:
    """Write what was asked for, say what was measured, and choose the exit code."""
    if output is not None:
        write_run(output, run)
    if plot is not None:
        plot_run(run, plot)
    if as_json:
        typer.echo(orjson.dumps(report.as_json(run), option=orjson.OPT_INDENT_2))
    else:
        console = Console(highlight=False)
        console.print(report.summary_table(report.summaries(run)))
        for note in report.notes(run):
            console.print(note, markup=False, soft_wrap=True)
    if stopped:
        raise typer.Exit(128 + signal.SIGINT)
    if any(outcome.finish == FinishReason.FAILED for outcome in run.outcomes):
        raise typer.Exit(1)


@contextmanager
def _live_counts(requests: int) -> Iterator[Callable[[Counts], None]]:
    """A bar on stderr where that is a terminal; it is drawn by the run's own ticks, since a thread would cost more."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    hidden = not console.is_terminal
    with Progress(*columns, console=console, auto_refresh=False, transient=True, disable=hidden) as bar:
        task, ticks = bar.add_task("starting", total=requests), 0

        def show(counts: Counts) -> None:
            nonlocal ticks
            ticks += 1
            if ticks % _TICKS_SHOWN == 0:
                bar.update(task, completed=counts.sent - counts.running, description=_words(counts), refresh=True)

        yield (lambda counts: None) if hidden else show


def _words(counts: Counts) -> str:
    ended = ", ".join(f"{number} {finish}" for finish, number in sorted(counts.ended.items()))
    return f"{counts.running} under way{', ' if ended else ''}{ended}"


def _tell(words: str) -> None:
    typer.echo(words, err=True)


def _allow_many_connections() -> None:
    """Open as many files as the system lets this process, for hundreds of streams."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def print_comparison(first: Path, second: Path) -> None:
    """Two files of --output side by side."""
    Console(highlight=False).print(report.comparison_table(read_run(first), read_run(second)))
