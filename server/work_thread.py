"""A thread for slow work that must not be in the way of anything else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

from server.errors import ApiError


class WorkThread:
    """Does one piece of work at a time, and holds at most `most` pieces, the one in work included."""

    def __init__(self, name: str, most: int) -> None:
        self._threads = ThreadPoolExecutor(1, name)
        self._room = threading.BoundedSemaphore(most)

    async def run[T](self, work: Callable[[], T]) -> T:
        """What the work returns; raises what it raises, or ApiError (503) when too much waits already.

        Work whose caller is cancelled before it begins is left out; once begun it runs to its end unheard.
        """
        if not self._room.acquire(blocking=False):
            raise ApiError("Too many calls of this kind are waiting.", status=503, code="engine_overloaded")
        gone = threading.Event()
        future = self._threads.submit(partial(_unless, gone, work))
        future.add_done_callback(lambda _: self._room.release())
        try:
            # A cancelled future would give its place back while the queue still holds its work.
            # None only for work whose caller has left, and that caller is not here any more.
            return cast("T", await asyncio.shield(asyncio.wrap_future(future)))
        except asyncio.CancelledError:
            gone.set()
            raise


def _unless[T](gone: threading.Event, work: Callable[[], T]) -> T | None:
    return None if gone.is_set() else work()
