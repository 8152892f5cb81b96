"""The pace of each stream: when its text leaves, and what it weighs, from what is known of its reader and its link."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from andes_jax.clock import Clock
from server.chunking import ChunkLimits, Hold, Situation, decide
from server.front_end import Call, FrontEnd
from server.mailbox import Held, Piece
from server.reader import ReaderClock
from server.transport import Transport, TransportState
from server.weights import StreamWeight

UNKNOWN = TransportState()


class StreamPace:
    """The pace of one call's stream."""

    def __init__(self, pacing: Pacing, call: Call, transport: Transport | None, weight: StreamWeight) -> None:
        self._pacing = pacing
        self._transport = transport
        self._weight = weight
        self._last_sent_s = -math.inf
        self._readers = {index: ReaderClock(request) for index, request in enumerate(call.requests)}

    def begin(self) -> bytes:
        """Give the stream its first weight; the value of the response's `priority` header."""
        slack_s = self._slack_s(self._pacing.clock.now())
        self._weight.follow(slack_s)
        return self._weight.header(slack_s)

    def hold(self, held: Held, now_s: float) -> Hold | None:
        """How long what is held should wait for more; None: not at all."""
        pacing = self._pacing
        if not pacing.limits.adaptive or held.urgent or held.since_s is None:
            return None
        state = UNKNOWN if self._transport is None else self._transport.state()
        situation = Situation(
            held_bytes=held.bytes,
            held_since_s=held.since_s,
            last_sent_s=self._last_sent_s,
            urgent=held.urgent,
            slack_s=self._slack_s(now_s),
            unsent_bytes=state.unsent_bytes,
            round_trip_s=state.round_trip_s,
            delivery_bytes_per_s=state.delivery_bytes_per_s,
            window_bytes=state.window_bytes,
            streams=pacing.streams,
            lag_s=pacing.lag_s,
        )
        return decide(situation, now_s, pacing.limits)

    def sent(self, pieces: Sequence[Piece], now_s: float) -> None:
        """These pieces have left: their readers have more to read, and the stream weighs less."""
        self._last_sent_s = now_s
        for piece in pieces:
            if piece.finish is not None:
                self._readers.pop(piece.index, None)
            elif (reader := self._readers.get(piece.index)) is not None:
                reader.sent(piece.tokens, now_s)
        if self._readers:
            self._weight.follow(self._slack_s(now_s))

    def _slack_s(self, now_s: float) -> float:
        """Of the reader who needs text first."""
        return min(reader.slack_s(now_s) for reader in self._readers.values())


class Pacing:
    """What the streams of one application have in common."""

    def __init__(self, limits: ChunkLimits, clock: Clock, front_end: FrontEnd) -> None:
        self.limits = limits
        self.clock = clock  # the engine's
        self.streams = 0  # open now
        self._front_end = front_end

    @property
    def lag_s(self) -> float:
        """How late the loop comes to the engine's events."""
        return self._front_end.lag_s

    @contextmanager
    def stream(self, call: Call, transport: Transport | None, weight: StreamWeight) -> Iterator[StreamPace]:
        """The pace of a stream that is open for the length of the block."""
        self.streams += 1
        try:
            yield StreamPace(self, call, transport, weight)
        finally:
            self.streams -= 1
