"""One connection to an engine, from its beginning to its end: which requests are open on it, and who hears of them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Literal

from andes_jax.clock import Clock
from andes_jax.engine.contract import EngineState
from andes_jax.engine.replies import EventBatch
from andes_jax.events import EventSink, TokenEvent
from andes_jax.remote.codec import pack_request, unpack_refusal, unpack_step
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.request import FinishReason, Refusal, Request

logger = logging.getLogger("andes_jax.remote")

Wish = Literal["cancelled", "paused", "resumed"]
_Answer = tuple[Future[None], tuple[str, ...]]  # and the ids of the requests that it is about


class Session:
    """Every request it takes ends once: with an answer that is a Refusal, or with one last event.

    Sinks are called on the thread that calls `receive` or `end`, without a lock.
    """

    def __init__(self, clock: Clock) -> None:
        """`clock` is the engine's."""
        self._clock = clock
        self._outgoing: queue.SimpleQueue[pb.FrontEndMessage | None] = queue.SimpleQueue()
        self._changed = threading.Condition()  # guards what follows
        self._sinks: dict[str, EventSink] = {}  # of open requests, by id
        self._handles: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._answers: dict[int, _Answer] = {}  # that the engine owes, by the submission's number
        self._last_handle = self._last_number = 0
        self._end_reason: str | None = None
        self._room = 0
        self._state: EngineState = "starting"

    @property
    def state(self) -> EngineState:
        """The engine's, when it last said something."""
        return self._state

    @property
    def room(self) -> int:
        """How many more requests the engine would take, as far as can be known here."""
        with self._changed:
            asked = sum(len(ids) for _, ids in self._answers.values())
            return max(0, self._room - asked)

    def outgoing(self) -> Iterator[pb.FrontEndMessage]:
        """What is to be sent, waiting for it, until the end."""
        while (message := self._outgoing.get()) is not None:
            yield message

    def submit(self, requests: Sequence[Request], sink: EventSink) -> Future[None]:
        """Ask the engine to take requests; its answer. Raises the Refusal of those that cannot be asked for."""
        answer: Future[None] = Future()
        answer.set_running_or_notify_cancel()  # nobody can take back the question
        with self._changed:
            if self._end_reason is not None:
                raise Refusal(self._end_reason, "engine_failed")
            submission = pb.Submission(number=self._last_number + 1)
            ids = {request.id for request in requests}
            if len(ids) < len(requests) or not ids.isdisjoint(self._handles):
                raise Refusal("a request id is in use", "duplicate_request", "id")
            for handle, request in enumerate(requests, self._last_handle + 1):
                submission.requests.append(pack_request(request, handle))
            for packed in submission.requests:
                self._sinks[packed.id] = sink
                self._handles[packed.id] = packed.handle
                self._ids[packed.handle] = packed.id
            self._last_number += 1
            self._last_handle += len(requests)
            self._answers[submission.number] = (answer, tuple(request.id for request in requests))
            self._outgoing.put(pb.FrontEndMessage(submission=submission))
        return answer

    def wish(self, what: Wish, request_id: str) -> None:
        """Tell the engine what is wanted for a request; one that is not open is ignored."""
        with self._changed:
            handle = self._handles.get(request_id)
            if handle is not None:
                self._outgoing.put(pb.FrontEndMessage(**{what: pb.Handles(handles=[handle])}))

    def receive(self, message: pb.EngineMessage, state: EngineState) -> None:
        """Take what the engine says. Raises ValueError for what cannot be understood."""
        self._state = state
        self._room = message.room
        if message.HasField("step"):
            self._deliver(unpack_step(message.step, self._ids))
        elif message.HasField("taken"):
            self._answered(message.taken)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no request is open; False when some still are after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._handles, timeout_s)

    def end(self, reason: str) -> None:
        """The connection is over: what is open has failed. Idempotent."""
        with self._changed:
            if self._end_reason is not None:
                return
            self._end_reason = reason
            answers = list(self._answers.values())
            unanswered = {request_id for _, ids in answers for request_id in ids}
            failed = [(sink, id) for id, sink in self._sinks.items() if id not in unanswered]
            self._answers.clear()
            for request_id in list(self._handles):
                self._forget(request_id)
            self._outgoing.put(None)
        for answer, _ in answers:
            answer.set_exception(Refusal(reason, "engine_failed"))
        batch = EventBatch()
        now_s = self._clock.now()
        for sink, request_id in failed:
            batch.add(sink, TokenEvent(request_id, now_s, finish=FinishReason.FAILED, message=reason))
        self._send(batch)

    def _answered(self, taken: pb.Taken) -> None:
        refused = taken.HasField("refusal")
        with self._changed:
            answer, ids = self._answers.pop(taken.number, (None, ()))
            if refused:
                for request_id in ids:
                    self._forget(request_id)
        if answer is None:  # it has ended meanwhile
            return
        if refused:
            answer.set_exception(unpack_refusal(taken.refusal))
        else:
            answer.set_result(None)

    def _deliver(self, events: list[TokenEvent]) -> None:
        batch = EventBatch()
        with self._changed:
            for event in events:
                sink = self._sinks.get(event.request_id)
                if sink is None:  # it has ended meanwhile
                    continue
                batch.add(sink, event)
                if event.finish is not None:
                    self._forget(event.request_id)
        self._send(batch)

    def _send(self, batch: EventBatch) -> None:
        for sink, events in batch.by_sink.items():
            try:
                sink(events)
            except Exception:
                logger.exception("a sink did not take its events; its requests are cancelled")
                for event in events:
                    self.wish("cancelled", event.request_id)

    def _forget(self, request_id: str) -> None:
        del self._sinks[request_id]
        del self._ids[self._handles.pop(request_id)]
        self._changed.notify_all()
