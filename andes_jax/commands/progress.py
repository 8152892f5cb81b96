"""Where a start has got to, on stderr: one line that is rewritten on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console


class Progress(Protocol):
    """Told what is being done now, how many parts of it are done, and how many there are (0: not known)."""

    def __call__(self, words: str, done: int = 0, total: int = 0) -> None: ...


@contextmanager
def progress_line(*, quiet_in_logs: bool = False) -> Iterator[Progress]:
    """Yield a Progress; a terminal is left as if nothing had been shown, and a log gets a line per kind of work.

    Args:
        quiet_in_logs: show nothing where stderr is no terminal.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("starting") as status:
            yield lambda words, done=0, total=0: status.update(_line(words, done, total))
    elif quiet_in_logs:
        yield lambda words, done=0, total=0: None
    else:
        yield lambda words, done=0, total=0: print(_line(words, done, total), file=sys.stderr, flush=True)


def _line(words: str, done: int, total: int) -> str:
    return f"{words} ({done} of {total})" if total else words
