"""Puts results into a job's journal, and waits where the disk is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from andes_jax.jobs.folder import JobError
from andes_jax.jobs.journal import DiskFull, Journal
from andes_jax.jobs.waiting import Patience


class Keeper:
    """Keeps what is done; what it has kept is never asked for again."""

    def __init__(
        self, journal: Journal, patience: Callable[[], Patience], trouble: Callable[[str | None], None]
    ) -> None:
        """`patience` makes the waiting of one record; `trouble` is told of a full disk, and when it no longer is."""
        self._journal = journal
        self._patience = patience
        self._trouble = trouble

    async def keep(self, key: str, value: Any) -> None:
        """Put a record. Raises JobError when the disk stays full, OSError when it fails."""
        patience: Patience | None = None
        while True:
            try:
                self._journal.put(key, value)
            except DiskFull as error:
                patience = patience or self._patience()
                self._trouble(f"{error.filename}: {error.strerror}")
                if not await patience.wait():
                    raise JobError(
                        f"{error.filename}: {error.strerror}; make room, and the same command goes on with the rest"
                    ) from error
            else:
                if patience is not None:
                    self._trouble(None)
                return
