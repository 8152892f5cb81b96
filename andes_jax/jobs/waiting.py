"""Waiting out what goes wrong for a while: a server that is away, a disk that is full."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0

Sleep = Callable[[float], Awaitable[None]]


class Patience:
    """How long one piece of work has been waiting, and how long it still may: longer and longer waits, no two alike."""

    def __init__(
        self, limit_s: float, *, sleep: Sleep = asyncio.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`limit_s` seconds from the first wait on."""
        self._limit_s = limit_s
        self._sleep = sleep
        self._clock = clock
        self._since_s: float | None = None
        self._next_s = FIRST_WAIT_S

    async def wait(self, at_least_s: float = 0.0) -> bool:
        """Wait before the next try; False, at once, where the limit would be passed."""
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        wait_s = max(at_least_s, self._next_s * random.uniform(0.5, 1.0))
        if now_s + wait_s - self._since_s > self._limit_s:
            return False
        self._next_s = min(self._next_s * 2, LONGEST_WAIT_S)
        await self._sleep(wait_s)
        return True
