"""What commands that serve until they are told to stop do with their process."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from andes_jax.commands.progress import progress_line
from andes_jax.config import Config

if TYPE_CHECKING:
    from andes_jax.build import BuiltEngine


def log_to_stderr(config: Config) -> None:
    """Log what is serious enough for the settings."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("andes_jax").setLevel(config.server.log_level.upper())


def build(config: Config) -> BuiltEngine:
    """An engine, showing on stderr how far it is."""
    from andes_jax.build import build_engine

    with progress_line() as progress:
        return build_engine(config, progress=progress)


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack, as Ctrl-C does, so that what was taken is given back."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
