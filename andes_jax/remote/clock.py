"""The clock of an engine elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from andes_jax.clock import Clock


class RemoteClock:
    """The engine's clock, as far as it can be known from here: ours, shifted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shift_s = 0.0

    def now(self) -> float:
        """Seconds on the engine's clock."""
        return self._clock.now() + self._shift_s

    def set_by(self, ask: Callable[[], float], times: int = 3) -> None:
        """Set it by an engine that says its time, believing the answer that came soonest."""
        shifts = []
        for _ in range(times):
            asked_s = self._clock.now()
            theirs_s = ask()
            answered_s = self._clock.now()
            shifts.append((answered_s - asked_s, theirs_s - (asked_s + answered_s) / 2))
        self._shift_s = min(shifts)[1]
