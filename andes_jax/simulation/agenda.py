"""What happens from outside: requests come, and readers leave."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

from andes_jax.simulation.journal import Record


class Agenda:
    """Arrivals in the order of their time, and a departure for each reader who will not stay."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._order = sorted(range(len(records)), key=lambda index: records[index].arrival.arrived_s)
        self._next = 0
        self._departures: list[tuple[float, int]] = []  # a heap of (moment, index)

    @property
    def next_s(self) -> float:
        """When something happens next; infinity: never."""
        departures = self._departures
        while departures and self._records[departures[0][1]].sequence is None:
            heapq.heappop(departures)
        moment = departures[0][0] if departures else math.inf
        if self._next < len(self._order):
            return min(moment, self._records[self._order[self._next]].arrival.arrived_s)
        return moment

    def arrivals(self, now: float) -> Iterator[int]:
        """Indices of requests that have come by now, each once; those who will leave are noted for `departures`."""
        while self._next < len(self._order):
            index = self._order[self._next]
            arrival = self._records[index].arrival
            if arrival.arrived_s > now:
                return
            self._next += 1
            yield index
            if arrival.cancel_after_s is not None:
                heapq.heappush(self._departures, (arrival.arrived_s + arrival.cancel_after_s, index))

    def departures(self, now: float) -> Iterator[int]:
        """Indices of requests whose readers have left by now; some may have ended before."""
        while self._departures and self._departures[0][0] <= now:
            yield heapq.heappop(self._departures)[1]
