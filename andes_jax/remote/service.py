"""An engine's side of the protocol: what front ends ask goes in, and each step's events go out as one message."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import orjson

from andes_jax.clock import Clock
from andes_jax.engine.contract import EngineContract
from andes_jax.events import TokenEvent
from andes_jax.remote.codec import pack_refusal, pack_step, unpack_request
from andes_jax.remote.description import Description, pack_description, pack_statistics
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.remote.protocol import andes_pb2_grpc
from andes_jax.request import Refusal

logger = logging.getLogger("andes_jax.remote")

SERVICE = "andes.v1.Engine"
MOST_UNSENT = 100_000  # events that a front end may leave unread before it is cut off


class EngineService(andes_pb2_grpc.EngineServicer):
    """Serves one engine to any number of front ends. Belongs to one event loop."""

    def __init__(
        self,
        engine: EngineContract,
        description: Description,
        clock: Clock,
        compiles_after_ready: Callable[[], int] = lambda: 0,
    ) -> None:
        """`clock` is the engine's."""
        self._engine = engine
        self._description = description
        self._clock = clock
        self._compiles_after_ready = compiles_after_ready
        self._links: set[_Link] = set()
        self._told_state = engine.state

    @property
    def open_requests(self) -> int:
        """Requests of all front ends that have not ended."""
        return sum(link.open_requests for link in self._links)

    async def wait_idle(self) -> None:
        """Wait until no front end has an open request or an unsent event."""
        while busy := [link for link in self._links if not link.idle.is_set()]:
            await busy[0].idle.wait()

    async def Connect(
        self, request_iterator: AsyncIterator[pb.FrontEndMessage], context: grpc.aio.ServicerContext
    ) -> None:
        """Serve one front end until it leaves; then all of its requests are cancelled."""
        await context.send_initial_metadata(())  # or a status beside the first write would send it again, and get lost
        link = _Link(self._engine, self.tell_state)
        self._links.add(link)
        logger.info("front end %s has come", context.peer())
        link.send(pb.EngineMessage(welcome=self._describe()))
        ends = (link.read(request_iterator), link.write(context), link.overflow())
        tasks = [asyncio.create_task(end) for end in ends]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except ValueError as error:
            logger.error("front end %s speaks another protocol: %s", context.peer(), error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except _TooSlow:
            logger.warning("front end %s is cut off: it does not read", context.peer())
            link.close()  # now: the status waits behind what is unread
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the front end does not read its events")
        except grpc.aio.UsageError as error:  # written to a stream whose peer has just left
            logger.debug("front end %s: %s", context.peer(), error)
        finally:
            self._links.discard(link)
            for task in tasks:
                task.cancel()
            ended = link.close()
            logger.info("front end %s has left; %d requests are cancelled", context.peer(), ended)

    async def Describe(self, request: pb.DescribeRequest, context: grpc.aio.ServicerContext) -> pb.Description:
        """What a front end has to know."""
        return self._describe()

    async def Statistics(self, request: pb.StatisticsRequest, context: grpc.aio.ServicerContext) -> pb.EngineStatistics:
        """Figures of this moment."""
        return pack_statistics(self._engine.statistics(), self._compiles_after_ready(), self._engine.state)

    async def Explain(self, request: pb.ExplainRequest, context: grpc.aio.ServicerContext) -> pb.ExplainReply:
        """What became of a request and why."""
        record = self._engine.explain(request.id)
        return pb.ExplainReply(record=None if record is None else _json(record))

    def tell_state(self) -> None:
        """Tell every front end of the engine's state, if it has changed since the last time."""
        state = self._engine.state
        if state != self._told_state:
            self._told_state = state
            for link in self._links:
                link.send(pb.EngineMessage())

    def _describe(self) -> pb.Description:
        return pack_description(self._description, self._engine.limits, self._clock.now())


def _json(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY)


class _TooSlow(Exception):
    """A front end leaves its events unread."""


class _Link:
    """One front end's stream."""

    def __init__(self, engine: EngineContract, after_news: Callable[[], None]) -> None:
        self._engine = engine
        self._after_news = after_news
        self._loop = asyncio.get_running_loop()
        self._handles: dict[str, int] = {}  # of requests that have not ended, by id
        self._ids: dict[int, str] = {}
        self._unsent: deque[pb.EngineMessage] = deque()
        self._unsent_events = 0
        self._news = asyncio.Event()
        self._full = asyncio.Event()
        self.idle = asyncio.Event()  # nothing is open, and everything is sent
        self.idle.set()
        self._closed = False
        # The engine groups a step's events by sink, so it must always be the same object.
        self._sink = self._from_engine

    @property
    def open_requests(self) -> int:
        return len(self._handles)

    async def read(self, messages: AsyncIterator[pb.FrontEndMessage]) -> None:
        """Take what the front end sends until it sends no more. Raises ValueError for what cannot be understood."""
        async for message in messages:
            match message.WhichOneof("message"):
                case "submission":
                    self._submit(message.submission)
                case "cancelled":
                    self._for_each(message.cancelled, self._engine.cancel)
                case "paused":
                    self._for_each(message.paused, self._engine.pause)
                case "resumed":
                    self._for_each(message.resumed, self._engine.resume)
                case None:
                    raise ValueError("a message says nothing that is known here")

    async def write(self, context: grpc.aio.ServicerContext) -> None:
        """Send what there is, for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._unsent:
                message = self._unsent.popleft()
                self._unsent_events -= len(message.step.handles)
                await context.write(message)
            if not self._handles:
                self.idle.set()

    async def overflow(self) -> None:
        """Raise _TooSlow when too much waits to be sent."""
        await self._full.wait()
        raise _TooSlow

    def send(self, message: pb.EngineMessage) -> None:
        """Have a message sent, with the engine's state and room."""
        message.state = self._engine.state
        message.room = self._engine.room
        self._unsent.append(message)
        self._unsent_events += len(message.step.handles)
        self.idle.clear()
        self._news.set()
        if self._unsent_events > MOST_UNSENT:
            self._full.set()

    def close(self) -> int:
        """Cancel everything that has not ended; how many those were. Nothing is sent afterwards."""
        self._closed = True
        self.idle.set()
        left = list(self._handles)
        self._handles.clear()
        self._ids.clear()
        self._unsent.clear()
        for request_id in left:
            self._engine.cancel(request_id)
        return len(left)

    def _submit(self, submission: pb.Submission) -> None:
        requests = [unpack_request(packed) for packed in submission.requests]
        taken = pb.Taken(number=submission.number)
        try:
            self._engine.submit_all(requests, self._sink)
        except Refusal as refusal:
            taken.refusal.CopyFrom(pack_refusal(refusal))
        else:  # events come through the loop, so not before this
            self._handles.update(
                (request.id, packed.handle) for request, packed in zip(requests, submission.requests, strict=True)
            )
            self._ids.update(
                (packed.handle, request.id) for request, packed in zip(requests, submission.requests, strict=True)
            )
        self.send(pb.EngineMessage(taken=taken))
        self._after_news()

    def _for_each(self, handles: pb.Handles, ask: Callable[[str], None]) -> None:
        for handle in handles.handles:
            request_id = self._ids.get(handle)
            if request_id is not None:  # else it has ended meanwhile
                ask(request_id)

    def _from_engine(self, events: Sequence[TokenEvent]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver, events)
        except RuntimeError:  # the loop is closed, and with it every stream
            return

    def _deliver(self, events: Sequence[TokenEvent]) -> None:
        if self._closed:
            return
        events = [event for event in events if event.request_id in self._handles]
        self.send(pb.EngineMessage(step=pack_step(events, self._handles.__getitem__)))
        for event in events:
            if event.finish is not None:
                del self._ids[self._handles.pop(event.request_id)]
        self._after_news()
