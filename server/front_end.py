"""Calls in flight: hands their requests to the engine and brings its events, from its thread, to this event loop.

One message per step crosses the threads, however many calls it concerns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from andes_jax.events import TokenEvent
from andes_jax.request import FinishReason, Refusal, Request
from server.context import Engine
from server.errors import ApiError, shutting_down
from server.mailbox import Mailbox, Piece
from server.metrics import CallMeter


class Call:
    """One HTTP call's requests. Whoever opens it must close it."""

    def __init__(self, front_end: FrontEnd, requests: Sequence[Request], meter: CallMeter) -> None:
        self._front_end = front_end
        self._mailboxes = {request.id: Mailbox(index) for index, request in enumerate(requests)}
        self._news = asyncio.Event()
        self.meter = meter

    @property
    def size(self) -> int:
        """How many requests it has, each of which ends with one finish."""
        return len(self._mailboxes)

    async def take(self) -> list[Piece]:
        """Wait for news; what came of each choice since the last time, in order of index."""
        await self._news.wait()
        self._news.clear()
        return [piece for mailbox in self._mailboxes.values() if (piece := mailbox.take()) is not None]

    def deliver(self, event: TokenEvent) -> None:
        """Add one event of one of the requests."""
        self._mailboxes[event.request_id].put(event)
        self.meter.event(event)
        self._news.set()

    def close(self) -> None:
        """Cancel what has not ended. Idempotent; nothing is delivered afterwards."""
        self._front_end.forget(self._mailboxes)
        for request_id, mailbox in self._mailboxes.items():
            if mailbox.finish is None:
                mailbox.finish = FinishReason.CANCELLED
                self._front_end.engine.cancel(request_id)
                self.meter.ended(FinishReason.CANCELLED)


class FrontEnd:
    """The calls of one event loop: the first one that opens a call."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._calls: dict[str, Call] = {}  # by request id
        self._loop: asyncio.AbstractEventLoop | None = None
        # The engine groups a step's events by sink, so it must always be the same object.
        self._sink = self._from_engine

    @property
    def open_requests(self) -> int:
        """Requests whose call is open."""
        return len(self._calls)

    def open(self, requests: Sequence[Request], meter: CallMeter) -> Call:
        """Submit the requests of one call: all of them or none. Raises ApiError when the engine refuses one."""
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop = loop
        if self._loop is not loop:
            raise RuntimeError("a front end belongs to one event loop")
        self.check_room(len(requests), meter)
        call = Call(self, requests, meter)
        self._calls.update((request.id, call) for request in requests)
        try:
            self.engine.submit_all(requests, self._sink)
        except BaseException as error:
            self.forget(request.id for request in requests)
            if isinstance(error, Refusal):
                meter.refused(error.code)
                raise ApiError.from_refusal(error) from None
            raise
        meter.started(len(requests))
        return call

    def check_room(self, count: int, meter: CallMeter) -> None:
        """Raise the ApiError (503) of a call for which the engine has no room now, before any work goes into it."""
        state = self.engine.state
        if state == "starting":
            error = ApiError("The model is still loading.", status=503, code="engine_not_ready")
        elif state in ("failed", "stopped"):
            error = ApiError("The engine is not running.", status=503, code="engine_failed")
        elif state == "draining":
            error = shutting_down()
        elif (room := self.engine.room) < count:
            message = f"The server is busy: there is room for {room} more replies, and this call asks for {count}."
            error = ApiError(message, status=503, code="engine_overloaded")
        else:
            return
        meter.refused(error.code or "")
        raise error

    def forget(self, request_ids: Iterable[str]) -> None:
        """Deliver nothing more for these."""
        for request_id in request_ids:
            self._calls.pop(request_id, None)

    def _from_engine(self, events: Sequence[TokenEvent]) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._deliver, events)
        except RuntimeError:  # the loop is closed, and with it every call
            return

    def _deliver(self, events: Sequence[TokenEvent]) -> None:
        for event in events:
            call = self._calls.get(event.request_id)
            if call is not None:
                call.deliver(event)
