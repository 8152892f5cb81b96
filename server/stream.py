"""Server-sent events of one call: the head leaves before the first token exists, then what the stream's pace lets go.

Order: for each choice the role (chat alone) with its first news, its text, its finish; then the usage where it was
asked for; then [DONE]. An error after the start is an event of its own, and [DONE] still comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson
from starlette.types import Message, Send

from server.errors import ApiError
from server.front_end import Call
from server.mailbox import Piece
from server.pace import StreamPace
from server.replies import ReplyHead, UsageSum, fault_of
from server.shapes import Shape
from server.stream_profile import CallProfile
from server.transport import Transport
from server.unread import UnreadWatch

DONE = b"data: [DONE]\n\n"
COMMENT = b": \n\n"  # HTTP/1.1 has no empty chunk: it would end the body
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies must not hold events back
]


class EventEncoder:
    """Turns pieces into the bytes of events."""

    def __init__(self, head: ReplyHead, shape: Shape, usage: UsageSum, *, include_usage: bool) -> None:
        fields = orjson.dumps(head.fields(shape.chunk_kind))
        self._before = b"data: " + fields[:-1] + b',"choices":['
        self._after = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._shape = shape
        self._usage = usage
        self._include_usage = include_usage

    def pieces(self, pieces: list[Piece]) -> bytes:
        """The events of what came for any choices."""
        before, after = self._before, self._after
        events: list[bytes] = []
        for piece in pieces:
            if piece.usage is not None:
                self._usage.add(piece)
            events.extend(before + choice + after for choice in self._shape.chunk_choices(piece))
        return b"".join(events)

    def end(self) -> bytes:
        """The events after every choice's finish."""
        if not self._include_usage:
            return DONE
        return self._before + b'],"usage":' + orjson.dumps(self._usage.render()) + b"}\n\n" + DONE

    @staticmethod
    def error(error: ApiError) -> bytes:
        """The events of a call that cannot go on."""
        return b"data: " + error.body() + b"\n\n" + DONE


class EventStream:
    """Sends one call's events. Waiting for a client that does not read is the transport's business, bounded there."""

    def __init__(
        self,
        transport: Transport | None,
        send: Send,
        draining: Callable[[], bool],
        watch: UnreadWatch,
        pace: StreamPace,
        now: Callable[[], float],
        profile: CallProfile | None = None,
    ) -> None:
        """`now` is the engine's clock."""
        self._transport = transport
        self._send = send
        self._draining = draining
        self._watch = watch
        self._pace = pace
        self._now = now
        self._profile = profile

    async def run(self, call: Call, encoder: EventEncoder) -> None:
        """Send everything from the head to the last event."""
        await self._begin()
        left = call.size
        while left:
            await call.news()
            now_s = self._now()
            if (hold := self._pace.hold(call.held, now_s)) is not None:
                await call.more(hold, now_s)
            left = await self._flush(call, encoder, left)

    async def _flush(self, call: Call, encoder: EventEncoder, left: int) -> int:
        """Send what is held as one body message; how many of the `left` choices go on after it."""
        pieces = await call.take()
        if self._profile is not None:
            self._profile.taken()
        faults = [fault for piece in pieces if (fault := fault_of(piece, draining=self._draining())) is not None]
        if faults:
            # What was generated before the fault is the client's, of this choice and of the others.
            data = encoder.pieces(_without_faults(pieces)) + encoder.error(faults[0])
            await self._body(data, more=False)
            return 0
        left -= sum(piece.finish is not None for piece in pieces)
        data = encoder.pieces(pieces)
        if not left:
            data += encoder.end()
        self._pace.sent(pieces, self._now())
        if data:
            await self._body(data, more=left > 0)
        return left

    async def _begin(self) -> None:
        headers = [*HEADERS, (b"priority", self._pace.begin())]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if self._transport is None or not await self._transport.send_empty_data():
            await self._body(COMMENT, more=True)

    async def _body(self, data: bytes, *, more: bool) -> None:
        if more and self._transport is not None and self._transport.offer(data):
            pass  # nothing to wait for
        elif more:
            await self._watch.over(self._send(_message(data, more=True)))
        else:
            await self._send(_message(data, more=False))
        if self._profile is not None:
            self._profile.sent(len(data))


def _message(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _without_faults(pieces: list[Piece]) -> list[Piece]:
    """The pieces as if those that end with a fault went on; without the ones of which then nothing is left."""
    kept = [piece if fault_of(piece, draining=False) is None else replace(piece, finish=None) for piece in pieces]
    return [piece for piece in kept if piece.finish is not None or piece.texts or piece.logprobs]
