"""Calls in flight: hands their requests to the engine and brings its events, from its thread, to this event loop.

One message per step crosses the threads, however many calls it concerns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from andes_jax.clock import Clock, WallClock
from andes_jax.events import TokenEvent
from andes_jax.request import FinishReason, Refusal, Request
from server.chunking import Hold
from server.context import Engine
from server.errors import ApiError, shutting_down
from server.mailbox import Held, Mailbox, Piece, size_of
from server.metrics import CallMeter
from server.request_log import Ended

ANSWER_S = 10.0  # that an engine in another process gets to take a call's requests
LAG_MEMORY = 0.8  # how much of the measured lag is that of the steps before


class Call:
    """One HTTP call's requests. Whoever opens it must close it."""

    def __init__(self, front_end: FrontEnd, requests: Sequence[Request], meter: CallMeter) -> None:
        self._front_end = front_end
        self._requests = {request.id: request for request in requests}
        self._mailboxes = {request.id: Mailbox(index) for index, request in enumerate(requests)}
        self._news = asyncio.Event()
        self._wake_bytes = 0  # what does not wait for more wakes nobody below so many
        self.held = Held()
        self.meter = meter

    @property
    def requests(self) -> list[Request]:
        """What was asked for, in order of index."""
        return list(self._requests.values())

    @property
    def size(self) -> int:
        """How many requests it has, each of which ends with one finish."""
        return len(self._mailboxes)

    async def news(self) -> None:
        """Wait until there is something to take."""
        await self._news.wait()

    async def more(self, hold: Hold, now_s: float) -> None:
        """After news: wait as long as it says for more, but never once something urgent is there."""
        if self.held.urgent or self.held.bytes >= hold.until_bytes:
            return
        self._news.clear()
        self._wake_bytes = hold.until_bytes
        timer = asyncio.get_running_loop().call_later(hold.until_s - now_s, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()
            self._wake_bytes = 0

    async def take(self) -> list[Piece]:
        """Wait for news; what came of each choice since the last time, in order of index."""
        await self._news.wait()
        self._news.clear()
        self.held = Held()
        return [piece for mailbox in self._mailboxes.values() if (piece := mailbox.take()) is not None]

    def deliver(self, event: TokenEvent, now_s: float) -> None:
        """Add one event of one of the requests."""
        mailbox = self._mailboxes[event.request_id]
        mailbox.put(event)
        self.meter.event(event)
        if event.finish is not None:
            request = self._requests[event.request_id]
            self._front_end.on_end(Ended(request, event.finish, event.emitted_s, mailbox.first_token_s, event.usage))
        held = self.held
        held.add(size_of(event), urgent=mailbox.urgent, emitted_s=event.emitted_s, now_s=now_s)
        if held.urgent or held.bytes >= self._wake_bytes:
            self._news.set()

    def pause(self) -> None:
        """Let what has not ended wait: nobody reads it."""
        live = self._live
        for request_id in live:
            self._front_end.engine.pause(request_id)
        if live:
            self.meter.paused(len(live))

    def resume(self) -> None:
        """Let what was paused go on."""
        for request_id in self._live:
            self._front_end.engine.resume(request_id)

    @property
    def _live(self) -> list[str]:
        return [request_id for request_id, mailbox in self._mailboxes.items() if mailbox.finish is None]

    def close(self) -> None:
        """Cancel what has not ended. Idempotent; nothing is delivered afterwards."""
        self._front_end.forget(self._mailboxes)
        for request_id in self._live:
            mailbox = self._mailboxes[request_id]
            mailbox.finish = FinishReason.CANCELLED
            self._front_end.cancel(_Left(self._requests[request_id], mailbox.first_token_s, self.meter))
            self.meter.ended(FinishReason.CANCELLED)


class _Left(NamedTuple):
    """A request whose client has left before its end."""

    request: Request
    first_token_s: float | None
    meter: CallMeter


class FrontEnd:
    """The calls of one event loop: the first one that opens a call."""

    def __init__(
        self, engine: Engine, on_end: Callable[[Ended], None] = lambda ended: None, clock: Clock | None = None
    ) -> None:
        self.engine = engine
        self._clock = WallClock() if clock is None else clock  # the engine's
        self.lag_s = 0.0  # how late the loop comes to a step's events, over the last steps
        self.on_end = on_end  # told of every request's end, also of those refused and left
        self._calls: dict[str, Call] = {}  # by request id
        self._left: dict[str, _Left] = {}  # cancelled, and the engine has not yet said what became of them
        self._loop: asyncio.AbstractEventLoop | None = None
        # The engine groups a step's events by sink, so it must always be the same object.
        self._sink = self._from_engine

    @property
    def open_requests(self) -> int:
        """Requests whose call is open."""
        return len(self._calls)

    async def open(self, requests: Sequence[Request], meter: CallMeter) -> Call:
        """Submit the requests of one call: all of them or none. Raises ApiError when the engine refuses one.

        Waits only for an engine in another process, ANSWER_S at most.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop = loop
        if self._loop is not loop:
            raise RuntimeError("a front end belongs to one event loop")
        try:
            self.check_room(len(requests), meter)
        except ApiError:
            self._tell_refused(requests)
            raise
        call = Call(self, requests, meter)
        self._calls.update((request.id, call) for request in requests)
        try:
            answer = self.engine.submit_all(requests, self._sink)
            if answer is not None:
                await self._answered(answer, requests)
        except BaseException as error:
            self.forget(request.id for request in requests)
            if isinstance(error, Refusal):
                meter.refused(error.code)
                self._tell_refused(requests)
                raise ApiError.from_refusal(error) from None
            raise
        meter.started(len(requests))
        return call

    async def _answered(self, answer: Future[None], requests: Sequence[Request]) -> None:
        """Wait for the engine's answer. Without one the requests are taken back; raises Refusal after ANSWER_S."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await asyncio.wrap_future(answer)
        except (TimeoutError, asyncio.CancelledError) as error:
            for request in requests:
                self.engine.cancel(request.id)
            if isinstance(error, TimeoutError):
                raise Refusal("The engine does not answer.", "engine_failed") from None
            raise

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

    def cancel(self, left: _Left) -> None:
        """End a request that nobody waits for any more."""
        self._left[left.request.id] = left
        self.engine.cancel(left.request.id)

    def _tell_refused(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self.on_end(Ended(request, FinishReason.REFUSED))

    def _from_engine(self, events: Sequence[TokenEvent]) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._deliver, events)
        except RuntimeError:  # the loop is closed, and with it every call
            return

    def _deliver(self, events: Sequence[TokenEvent]) -> None:
        now_s = self._clock.now()
        self.lag_s += (1 - LAG_MEMORY) * (max(0.0, now_s - events[-1].emitted_s) - self.lag_s)
        for event in events:
            call = self._calls.get(event.request_id)
            if call is not None:
                call.deliver(event, now_s)
            elif event.finish is not None and (left := self._left.pop(event.request_id, None)) is not None:
                left.meter.served(event.usage)
                self.on_end(
                    Ended(left.request, FinishReason.CANCELLED, event.emitted_s, left.first_token_s, event.usage)
                )
