"""What became of each request and why: a line per change of state, and what those who waited were waiting for."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Sequence
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

    def note(self, request_id: str, event: str, at_s: float | None = None, **details: Any) -> None:
        """Add a line, of now unless told otherwise; the first one of a request must be `arrived`."""
        if event == "arrived":
            self._live[request_id] = deque()
        lines = self._live.get(request_id)
        if lines is None:
            return
        lines.append(Line(self.now if at_s is None else at_s, event, details))
        if len(lines) > LINES:
            del lines[1]
        if event == "finished":
            self._ended[request_id] = lines  # before it leaves the living, so that other threads always find it
            del self._live[request_id]
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
        causes = [(0.0, "nothing"), *self._causes]
        since: float | None = None
        for at_s, event, _ in lines:
            if event in ("arrived", "displaced", "resumed") and since is None:
                since = at_s
            elif event in ("admitted", "finished", "paused") and since is not None:
                waits.append(_wait(causes, since, at_s, begin))
                since = None
        if since is not None:
            waits.append(_wait(causes, since, self.now, begin))
        return waits


def _wait(causes: Sequence[tuple[float, str]], since: float, until: float, begin: float) -> dict[str, Any]:
    """One stretch, by the causes since when each was the one: only those in force meanwhile are gone through."""
    lacked: dict[str, float] = {}
    first = max(bisect_right(causes, since, key=lambda each: each[0]) - 1, 0)
    for index in range(first, len(causes)):
        start, cause = causes[index]
        end = causes[index + 1][0] if index + 1 < len(causes) else until
        shared = min(end, until) - max(start, since)
        if shared > 0:
            lacked[cause] = lacked.get(cause, 0.0) + shared
        if end >= until:
            break
    return {
        "from_s": round(since - begin, 4),
        "until_s": round(until - begin, 4),
        "for": {cause: round(seconds, 4) for cause, seconds in lacked.items()},
    }
