"""Where a start has got to, on stderr: one line that is rewritten on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_line(*, quiet_in_logs: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that is told what is being done now; a terminal is left as if nothing had been shown.

    Args:
        quiet_in_logs: show nothing where stderr is no terminal.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("starting") as status:
            yield status.update
    elif quiet_in_logs:
        yield lambda words: None
    else:
        yield lambda words: print(words, file=sys.stderr, flush=True)


@contextmanager
def progress_bar(words: str, total: int | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that is told what has just been done, of `total` things where
    that is known; a bar on a terminal, else nothing."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(words, total=total)
        yield lambda done: progress.update(task, advance=1, description=done)
