"""What became of each request and why: a line per change of state, and what those who waited were waiting for."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, NamedTuple

KEPT = 2048  # finished requests that can still be explained
LINES = 128  # of one request; the oldest ones but the first go
CAUSES = 8192  # changes of what is waited for


class Line(NamedTuple):
    """One change of a request's state."""

    at_s: float  # engine clock
    event: str  # arrived, admitted, displaced, paused, resumed, saved, dropped, finished
    details: dict[str, Any]


class Journal:
    """Written by the scheduler's thread; `explain` may be called from any."""

    def __init__(self) -> None:
        self.now = 0.0  # the scheduler's, stamped on every line
        self._live: dict[str, deque[Line]] = {}
        self._ended: OrderedDict[str, deque[Line]] = OrderedDict()
        self._causes: deque[tuple[float, str]] = deque(maxlen=CAUSES)
        self._cause = "nothing"

    def note(self, request_id: str, event: str, **details: Any) -> None:
        """Add a line; the first one of a request must be `arrived`."""
        if event == "arrived":
            self._live[request_id] = deque()
        lines = self._live.get(request_id)
        if lines is None:
            return
        lines.append(Line(self.now, event, details))
        if len(lines) > LINES:
            del lines[1]
        if event == "finished":
            self._ended[request_id] = self._live.pop(request_id)
            if len(self._ended) > KEPT:
                self._ended.popitem(last=False)

    def waiting_for(self, cause: str) -> None:
        """What keeps the first of those who wait from running, from now on: nothing, slots,
        pages, tokens, others."""
        if cause != self._cause:
            self._cause = cause
            self._causes.append((self.now, cause))

    def explain(self, request_id: str) -> dict[str, Any] | None:
        """All that is known of a request, fit for JSON; None for one that is not or no longer known."""
        lines = self._live.get(request_id) or self._ended.get(request_id)
        if lines is None:
            return None
        told = list(lines)
        begin = told[0].at_s
        events = [{"at_s": round(at_s - begin, 4), "event": event, **details} for at_s, event, details in told]
        return {"id": request_id, "events": events, "waits": self._waits(told)}

    def _waits(self, lines: list[Line]) -> list[dict[str, Any]]:
        """Each stretch without a slot, and how long of it what was lacking."""
        begin = lines[0].at_s
        waits: list[dict[str, Any]] = []
        since: float | None = None
        for at_s, event, _ in lines:
            if event in ("arrived", "displaced", "resumed") and since is None:
                since = at_s
            elif event in ("admitted", "finished", "paused") and since is not None:
                waits.append(self._wait(since, at_s, begin))
                since = None
        if since is not None:
            waits.append(self._wait(since, self.now, begin))
        return waits

    def _wait(self, since: float, until: float, begin: float) -> dict[str, Any]:
        lacked: dict[str, float] = {}
        causes = [(0.0, "nothing"), *self._causes]
        ends = [at_s for at_s, _ in causes[1:]] + [max(until, self.now)]
        for (start, cause), end in zip(causes, ends, strict=True):
            shared = min(end, until) - max(start, since)
            if shared > 0:
                lacked[cause] = lacked.get(cause, 0.0) + shared
        return {
            "from_s": round(since - begin, 4),
            "until_s": round(until - begin, 4),
            "for": {cause: round(seconds, 4) for cause, seconds in lacked.items()},
        }
