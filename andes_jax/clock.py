"""Time as an argument: decisions take `now`, loops take a clock, tests take one they turn by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds from an arbitrary start, never going back."""

    def now(self) -> float: ...


class WallClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()


class VirtualClock:
    """A clock that moves only when told to."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`; raises ValueError when negative."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._now_s += seconds

    def advance_to(self, moment_s: float) -> None:
        """Move on to that moment exactly; one that has passed changes nothing."""
        self._now_s = max(self._now_s, moment_s)
