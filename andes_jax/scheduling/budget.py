"""How much of the machine's time may go into moving replies out of each other's way."""

from __future__ import annotations


class PreemptionBudget:
    """A debt in seconds that is paid off by `share` of the time that passes; while there is any, nothing is spent."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._debt_s = 0.0
        self._paid_s = 0.0

    def allows(self, now: float) -> bool:
        """Whether a preemption may be paid for now."""
        self._pay(now)
        return self._debt_s <= 0.0

    def spend(self, seconds: float, now: float) -> None:
        """A preemption will cost so many seconds of the machine's time."""
        self._pay(now)
        self._debt_s += seconds

    def _pay(self, now: float) -> None:
        self._debt_s = max(0.0, self._debt_s - self._share * max(now - self._paid_s, 0.0))
        self._paid_s = now
