"""HTTP/2 connections that stay whole whatever one stream or a peer does."""

from __future__ import annotations

import asyncio
from typing import Any

import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import priority
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import Body, Data, StreamClosed, Trailers
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream

from server.hypercorn_repairs.buffer import STREAM_HIGH, FairStreamBuffer, StalledError
from server.hypercorn_repairs.config import RepairedConfig
from server.hypercorn_repairs.data_frames import DataFrames
from server.hypercorn_repairs.peer_budget import PeerBudget
from server.hypercorn_repairs.schedule import StreamSchedule
from server.hypercorn_repairs.wakeup import Wakeup

WRITE_BATCH = 16 * 1024  # bytes of frames joined in one socket write
FRAME_HEADER = 9  # bytes
LAST_WORDS_S = 1.0  # how long what a failed stream has written may take to leave before its reset


class _ClosedStream:
    """Stands for a stream that is over: takes whatever still comes for it."""

    idle = True

    async def handle(self, event: StreamEvent) -> None:
        return


class _Streams(dict[int, Any]):
    """Open streams by id. DATA of a stream that was answered before its body came must not end the connection."""

    def __missing__(self, stream_id: int) -> _ClosedStream:
        return _ClosedStream()


class _LenientSettings(h2.settings.Settings):
    """Tells the peer the stream limit but leaves it to us: the library would end the connection over one too many."""

    @property  # type: ignore[misc]
    def max_concurrent_streams(self) -> int:
        return 2**31 - 1


class FairH2Protocol(H2Protocol):
    """Hypercorn's HTTP/2 with fair turns, resets that reach the peer, and a budget for disturbances."""

    config: RepairedConfig
    priority: StreamSchedule  # type: ignore[assignment]
    stream_buffers: dict[int, FairStreamBuffer]  # type: ignore[assignment]
    has_data: Wakeup

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.streams = _Streams()
        self.priority = StreamSchedule()
        self.connection.decoder.max_header_list_size = self.config.h2_max_header_list_size
        told: dict[Any, int] = dict(self.connection.local_settings.items())
        self.connection.local_settings = _LenientSettings(client=False, initial_values=told)
        self._refused = False  # a stream was refused, so that the connection may have become idle unnoticed
        self._budget = PeerBudget(asyncio.get_running_loop().time)
        self._frames = DataFrames(self.connection)
        self.has_data = Wakeup()

    async def initiate(self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None) -> None:
        await super().initiate(headers, settings)
        if headers is None:  # by prior knowledge; the HTTP/1.1 step before has stopped the idle timer
            await self.send(Updated(idle=True))

    async def farewell(self) -> None:
        """Tell the peer with GOAWAY that the connection ends."""
        try:
            self.connection.close_connection()
        except h2.exceptions.ProtocolError:
            return
        await self._flush()

    def backlog(self, stream_id: int) -> tuple[int, int | None]:
        """Bytes of a stream that wait here, and how many the peer would take of it now; 0 and None once it is over."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is None:
            return 0, None
        try:
            return len(buffer.buffer), self.connection.local_flow_control_window(stream_id)
        except h2.exceptions.ProtocolError:  # reset by the peer, and not yet told here
            return 0, None

    # Sending

    def offer(self, stream_id: int, data: bytes) -> bool:
        """Take data of a stream whose response has begun, if nobody has to wait for that; else False: it must be sent.

        What is offered in one pass of the loop leaves together.
        """
        buffer = self.stream_buffers.get(stream_id)
        if buffer is None or self.closed or not buffer.offer(data):
            return False
        self.priority.unblock(stream_id)
        self.has_data.call()
        return True

    async def _flush(self) -> None:
        data = self._frames.take()
        if data:
            await self.send(RawData(data=data))

    async def send_task(self) -> None:
        while not self.closed:
            queued, refill = 0, False
            while queued < WRITE_BATCH and not refill:
                if self.connection.outbound_flow_control_window <= 0:
                    # A turn spent on a closed window would always starve the lighter streams.
                    await self._end_complete_streams()
                    break
                try:
                    stream_id = next(self.priority)
                except priority.DeadlockError:
                    break
                sent, refill = await self._queue_data(stream_id)
                self.priority.charge(stream_id, sent)
                queued += sent
            await self._flush()
            if refill:
                await asyncio.sleep(0)  # the writer that was let go may add before the next choice
            elif queued < WRITE_BATCH:
                await self.has_data.wait()
                await self.has_data.clear()
        for buffer in list(self.stream_buffers.values()):
            await buffer.close()

    async def _end_complete_streams(self) -> None:
        for stream_id in [each for each, buffer in self.stream_buffers.items() if buffer.complete]:
            await self._queue_data(stream_id)

    async def _queue_data(self, stream_id: int) -> tuple[int, bool]:
        """Frame at most one DATA of the stream; returns the bytes framed and whether a waiting writer was let go."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is None:
            self._forget(stream_id)
            return 0, False
        try:
            window = self.connection.local_flow_control_window(stream_id)
            was_full = len(buffer.buffer) >= STREAM_HIGH
            data = buffer.take(max(0, min(window, self.connection.max_outbound_frame_size)))
            done = buffer.complete
            if data and (done or not self._frames.add(stream_id, data)):
                self.connection.send_data(stream_id, data, end_stream=done)
            elif done and not data:
                self.connection.end_stream(stream_id)
            if done:
                self._forget(stream_id)
            elif not data or not buffer.buffer:
                self.priority.block(stream_id)
            return len(data) + FRAME_HEADER, was_full
        except (h2.exceptions.ProtocolError, KeyError):  # the stream or connection closed meanwhile
            await buffer.close()
            self._forget(stream_id)
            return 0, False

    def _forget(self, stream_id: int) -> None:
        self.stream_buffers.pop(stream_id, None)
        try:
            self.priority.remove_stream(stream_id)
        except priority.PriorityError:
            return

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, (Body, Data)) and (self.closed or event.stream_id not in self.stream_buffers):
            await asyncio.sleep(0)  # the stream is gone, and an application that does not listen must not spin
            return
        try:
            if isinstance(event, StreamClosed):
                await self._end_broken_stream(event.stream_id)
            await super().stream_send(event)
            if isinstance(event, Trailers) and event.stream_id in self.stream_buffers:
                await self.stream_buffers[event.stream_id].close()  # their HEADERS frame has ended the stream
                self._forget(event.stream_id)
        except StalledError:
            await self._reset(event.stream_id, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            await self._close_stream(event.stream_id)

    async def _end_broken_stream(self, stream_id: int) -> None:
        """Reset a stream whose application ended without a last body message, or the client waits for ever."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is None or buffer._complete:
            return
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await buffer.drain()
        except TimeoutError:
            pass  # what the peer would not take is lost with the stream
        await self._reset(stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)

    async def _reset(self, stream_id: int, code: h2.errors.ErrorCodes) -> None:
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None:
            await buffer.close()
        self._forget(stream_id)
        try:
            self.connection.reset_stream(stream_id, code)
        except h2.exceptions.ProtocolError:
            return
        await self._flush()

    # Receiving

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if not self._budget.allows(event, answered=self._answered(event)):
                self.connection.close_connection(error_code=h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                await self._flush()
                await self.send(Closed())
                return
            if isinstance(event, h2.events.StreamReset) and event.stream_id in self.stream_buffers:
                await self.stream_buffers[event.stream_id].close()
                self._forget(event.stream_id)
        await super()._handle_events(events)
        if self._refused:
            self._refused = False
            await self.send(Updated(idle=self.idle))

    def _answered(self, event: h2.events.Event) -> bool:
        stream = self.streams.get(getattr(event, "stream_id", None) or 0)
        return isinstance(stream, HTTPStream) and stream.state is ASGIHTTPState.RESPONSE

    async def _create_stream(self, request: h2.events.RequestReceived) -> None:
        path = dict(request.headers or ()).get(b":path")
        if path is None or not path.isascii():
            self._refuse(request.stream_id, h2.errors.ErrorCodes.PROTOCOL_ERROR)
            return
        if self.connection.open_inbound_streams > self.config.h2_max_concurrent_streams:
            self._refuse(request.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        await super()._create_stream(request)
        buffer = self.stream_buffers.get(request.stream_id)
        if buffer is not None:
            buffer.stall_timeout_s = self.config.stall_timeout_s

    def _refuse(self, stream_id: int, code: h2.errors.ErrorCodes) -> None:
        self._refused = True
        self._budget.charge_refusal()
        self.connection.reset_stream(stream_id, code)

    async def _priority_updated(self, event: h2.events.PriorityUpdated) -> None:
        if event.stream_id in self.stream_buffers:  # nothing is kept for a stream that is idle or over
            await super()._priority_updated(event)
