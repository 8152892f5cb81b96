"""What is shown of a job while it runs, on stderr: a bar on a terminal, lines of JSON for programs, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TextIO

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

if TYPE_CHECKING:
    from andes_jax.jobs.tally import Tally

JSON_EVERY_S = 1.0
LINE_EVERY_S = 30.0  # where stderr is neither a terminal nor read by a program


@contextmanager
def show_tally(tally: Tally, kind: Literal["bar", "json", "nothing"], stream: TextIO | None = None) -> Iterator[None]:
    """Show a tally as it changes, for the length of a block."""
    out = sys.stderr if stream is None else stream
    console = Console(file=out)
    if kind == "bar" and console.is_terminal:
        with _bar(tally, console):
            yield
        return
    if kind == "nothing":
        show: Callable[[Tally], None] = _nothing
    elif kind == "json":
        show = _Lines(out, JSON_EVERY_S, lambda: orjson.dumps(tally.as_json()).decode())
    else:
        show = _Lines(out, LINE_EVERY_S, lambda: _count_words(tally) + words(tally))
    tally.on_change = show
    try:
        yield
    finally:
        tally.on_change = _nothing
        if isinstance(show, _Lines):
            show.say()


def words(tally: Tally) -> str:
    """What a bar says beside the count of rows."""
    parts = [f"{tally.tokens_per_s:.0f} tokens/s"]
    if tally.errors:
        parts.append(f"{tally.errors} errors")
    if tally.left_s is not None:
        parts.append(f"{timedelta(seconds=round(tally.left_s))} left")
    if tally.trouble is not None:
        parts.append(f"waiting: {tally.trouble}")
    return ", ".join(parts)


def _count_words(tally: Tally) -> str:
    return f"{tally.done} of {'?' if tally.total is None else tally.total}: "


def _nothing(tally: Tally) -> None:
    """Nobody looks."""


@contextmanager
def _bar(tally: Tally, console: Console) -> Iterator[None]:
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("starting", total=None)

        def show(changed: Tally) -> None:
            bar.update(task, completed=changed.done, total=changed.total, description=words(changed))

        tally.on_change = show
        try:
            yield
        finally:
            tally.on_change = _nothing


class _Lines:
    """A line now and then, and whenever a trouble comes or goes."""

    def __init__(self, out: TextIO, every_s: float, line: Callable[[], str]) -> None:
        self._out = out
        self._every_s = every_s
        self._line = line
        self._last_s = time.monotonic()
        self._trouble: str | None = None

    def __call__(self, tally: Tally) -> None:
        if tally.trouble != self._trouble or time.monotonic() - self._last_s >= self._every_s:
            self._trouble = tally.trouble
            self.say()

    def say(self) -> None:
        self._last_s = time.monotonic()
        print(self._line(), file=self._out, flush=True)
