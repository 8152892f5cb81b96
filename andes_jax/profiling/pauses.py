"""When Python's garbage collector stopped everything."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Mapping
from typing import Any

from andes_jax.clock import Clock

KEPT = 256  # pauses


class CollectorPauses:
    """Records pauses from `start` on, until `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = 0.0
        self._pauses: deque[tuple[float, float]] = deque(maxlen=KEPT)

    def start(self) -> None:
        """Begin to record."""
        gc.callbacks.append(self.note)

    def stop(self) -> None:
        """Record nothing more."""
        gc.callbacks.remove(self.note)

    def note(self, phase: str, info: Mapping[str, Any]) -> None:
        """What the collector calls before and after it runs, on whichever thread it does."""
        now = self._clock.now()
        if phase == "start":
            self._began_s = now
        else:
            self._pauses.append((self._began_s, now))

    def seconds(self, since_s: float, until_s: float) -> float:
        """How much of the time between two moments the collector took."""
        return sum(max(min(end, until_s) - max(begin, since_s), 0.0) for begin, end in list(self._pauses))
