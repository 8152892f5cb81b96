"""A store for an event loop: whatever is asked of it is done in a thread, one thing after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Concatenate

from server.batches.store import Store, database_of


class SharedStore:
    """A store that is opened when it is first used, in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._threads = ThreadPoolExecutor(1, "batch-store")
        self._store: Store | None = None

    @property
    def exists(self) -> bool:
        """Whether anybody has ever used it."""
        return self._store is not None or database_of(self.folder).exists()

    async def __call__[**P, T](
        self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What the method returns; raises what it raises, and what opening the store does."""
        work = partial(self._run, method, args, kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _run[T](self, method: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]) -> T:
        if self._store is None:
            self._store = Store(self.folder)
        return method(self._store, *args, **kwargs)

    def close(self) -> None:
        """Wait for what has begun, and let go."""
        if self._store is not None:
            self._threads.submit(self._store.close)
        self._threads.shutdown()
