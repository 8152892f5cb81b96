"""Whose turn it is on an HTTP/2 connection: start-time fair queueing by bytes over flat weights.

Stands in for the `priority` package's tree, which charges a turn whatever its size and lets a stream that was quiet
for long take every turn until it has caught up. Dependencies between streams are ignored, as RFC 9113 advises.
Goyal, Vin, Cheng: Start-time Fair Queuing (SIGCOMM 1996).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from priority import BadWeightError, DeadlockError, DuplicateStreamError, MissingStreamError

DEFAULT_WEIGHT = 16


@dataclass(slots=True)
class _Share:
    weight: int
    asked: int | None = None  # the weight that the peer has given
    assigned: bool = False  # the weight is ours, and the peer's is only known
    start: float = 0.0  # virtual time of its next turn
    ready: bool = False
    ticket: int = 0  # of its valid entry in the heap


class StreamSchedule:
    """The interface of `priority.PriorityTree` that Hypercorn uses, and `charge`, due after every turn.

    Weights come from the peer until `assign` gives the stream one, and from there alone afterwards.
    """

    def __init__(self) -> None:
        self._shares: dict[int, _Share] = {}
        self._heap: list[tuple[float, int, int]] = []  # start, ticket, stream id; entries may be out of date
        self._now = 0.0  # virtual time: the start of the last turn
        self._tickets = 0

    def insert_stream(
        self, stream_id: int, depends_on: int | None = None, weight: int = DEFAULT_WEIGHT, exclusive: bool = False
    ) -> None:
        """Add a stream that has nothing to send; raises DuplicateStreamError and BadWeightError."""
        if stream_id in self._shares:
            raise DuplicateStreamError(f"stream {stream_id} is known")
        self._shares[stream_id] = _Share(_checked(weight))

    def reprioritize(
        self, stream_id: int, depends_on: int | None = None, weight: int = DEFAULT_WEIGHT, exclusive: bool = False
    ) -> None:
        """The peer gives a stream another weight, from its next turn on; raises MissingStreamError, BadWeightError."""
        share = self._share(stream_id)
        share.asked = _checked(weight)
        if not share.assigned:
            share.weight = weight

    def assign(self, stream_id: int, weight: int) -> bool:
        """Give a stream our weight, from its next turn on; False when it is not known. Raises BadWeightError."""
        share = self._shares.get(stream_id)
        if share is None:
            return False
        share.weight, share.assigned = _checked(weight), True
        return True

    def asked(self, stream_id: int) -> int | None:
        """The weight that the peer has given a stream; None when it has not, or the stream is not known."""
        share = self._shares.get(stream_id)
        return None if share is None else share.asked

    def remove_stream(self, stream_id: int) -> None:
        """Forget a stream; raises MissingStreamError."""
        self._share(stream_id)
        del self._shares[stream_id]

    def block(self, stream_id: int) -> None:
        """The stream has nothing to send, or cannot; raises MissingStreamError."""
        self._share(stream_id).ready = False

    def unblock(self, stream_id: int) -> None:
        """The stream has something to send; raises MissingStreamError. What it did not use meanwhile is lost."""
        share = self._share(stream_id)
        if not share.ready:
            share.ready = True
            self._enqueue(stream_id, share, max(self._now, share.start))

    def __next__(self) -> int:
        """The stream whose turn it is; raises DeadlockError when none is ready."""
        while self._heap:
            start, ticket, stream_id = heapq.heappop(self._heap)
            share = self._shares.get(stream_id)
            if share is not None and share.ready and share.ticket == ticket:
                self._now = start
                return stream_id
        raise DeadlockError("no stream is ready")

    def charge(self, stream_id: int, size: int) -> None:
        """The stream's turn has taken so many bytes. One that is gone meanwhile is ignored."""
        share = self._shares.get(stream_id)
        if share is None:
            return
        share.start = self._now + size / share.weight
        if share.ready:
            self._enqueue(stream_id, share, share.start)

    def _enqueue(self, stream_id: int, share: _Share, start: float) -> None:
        self._tickets += 1
        share.start, share.ticket = start, self._tickets
        heapq.heappush(self._heap, (start, self._tickets, stream_id))

    def _share(self, stream_id: int) -> _Share:
        share = self._shares.get(stream_id)
        if share is None:
            raise MissingStreamError(f"stream {stream_id} is not known")
        return share


def _checked(weight: int) -> int:
    if not 1 <= weight <= 256:
        raise BadWeightError(f"weight {weight} is not in 1..256")
    return weight
