"""How many disturbing frames a peer may send: a token bucket for each connection."""

from __future__ import annotations

from collections.abc import Callable

import h2.events

BURST = 100.0  # resets at once
RATE = 20.0  # resets regained per second
ANSWERED = 0.25  # of a reset, when the response had begun: readers do change their minds
CHEAP = 0.05  # of a reset
_CHEAP_EVENTS = (
    h2.events.PingReceived,
    h2.events.RemoteSettingsChanged,
    h2.events.PriorityUpdated,
    h2.events.UnknownFrameReceived,
)


class PeerBudget:
    """Charges resets fully, frames that ask for a small answer a little, and WINDOW_UPDATE, which readers need, not."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left = BURST
        self._at_s = now()

    def allows(self, event: h2.events.Event, *, answered: bool) -> bool:
        """Charge for the event, of whose stream the response has begun or not; False once the peer has overdrawn."""
        if isinstance(event, h2.events.StreamReset):
            cost = (ANSWERED if answered else 1.0) if event.remote_reset else 0.0
        else:
            cost = CHEAP if isinstance(event, _CHEAP_EVENTS) else 0.0
        return self._charge(cost)

    def charge_refusal(self) -> None:
        """A stream had to be refused; what it costs counts from the next event on."""
        self._charge(1.0)

    def _charge(self, cost: float) -> bool:
        if not cost:
            return self._left >= 0
        now_s = self._now()
        self._left = min(BURST, self._left + (now_s - self._at_s) * RATE) - cost
        self._at_s = now_s
        return self._left >= 0
