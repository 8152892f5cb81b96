"""The engine's thread and its door: requests come in from any thread, events leave in one batch a step and sink."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from andes_jax.clock import Clock
from andes_jax.engine.door import SHUTTING_DOWN, State, check_open
from andes_jax.engine.inbox import Inbox
from andes_jax.engine.recovery import EngineFailed, Recovery
from andes_jax.engine.replies import EventBatch, Reply
from andes_jax.engine.statistics import Counters, EngineStatistics, Limits, snapshot
from andes_jax.events import EventSink, TokenEvent
from andes_jax.request import FinishReason, Request
from andes_jax.scheduling.pipeline import Pipeline
from andes_jax.scheduling.plan import Runner
from andes_jax.scheduling.scheduler import Advance, Scheduler
from andes_jax.text.token_table import TokenTable

logger = logging.getLogger(__name__)

JOIN_S = 10.0  # a step may take so long to end once the engine is told to stop


class Engine:
    """Serves requests with one thread. Every accepted request gets exactly one finish event, whatever happens."""

    def __init__(
        self, scheduler: Scheduler, runner: Runner, tokens: TokenTable, clock: Clock, *, max_waiting: int
    ) -> None:
        """Takes over scheduler and runner; `max_waiting` requests may wait beside those that have slots."""
        self._scheduler = scheduler
        self._pipeline = Pipeline(runner, clock)
        self._tokens = tokens
        self._clock = clock
        self._recovery = Recovery(scheduler, runner)
        self._counters = Counters()
        self._most_live = scheduler.limits.max_sequences + max_waiting
        self._replies: dict[str, Reply] = {}  # live, by request id; whoever pops one sends its finish event
        self._condition = threading.Condition()  # guards the four below
        self._inbox = Inbox()
        self._state: State = "starting"
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> State:
        """Where the engine is in its life."""
        return self._state

    @property
    def limits(self) -> Limits:
        """What can be served at most."""
        limits = self._scheduler.limits
        pool_tokens = self._scheduler.pool.total * limits.page_tokens
        return Limits(limits.max_model_len, limits.max_sequences, pool_tokens, self._most_live)

    @property
    def room(self) -> int:
        """How many requests would be accepted at this moment, were the engine ready."""
        return max(0, self._most_live - len(self._replies))

    def statistics(self) -> EngineStatistics:
        """Figures of this moment, from any thread."""
        return snapshot(self._scheduler, self._counters)

    def start(self) -> None:
        """Start serving; raises RuntimeError when it was started or stopped before."""
        with self._condition:
            if self._thread is not None or self._state != "starting":
                raise RuntimeError(f"the engine is {self._state} and cannot be started")
            self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
            self._state = "ready"
        self._thread.start()

    def submit(self, request: Request, sink: EventSink) -> None:
        """Accept a request, from any thread, or raise its Refusal. Sinks are hashable; equal ones share batches."""
        self.submit_all((request,), sink)

    def submit_all(self, requests: Sequence[Request], sink: EventSink) -> None:
        """Accept all of the requests, from any thread, or raise a Refusal and accept none."""
        for request in requests:
            if (refusal := self._scheduler.refusal(request)) is not None:
                raise refusal
        replies = {request.id: Reply(request, sink, self._tokens) for request in requests}
        with self._condition:
            check_open(self._state, self._replies, requests, self._most_live)
            self._replies |= replies
            self._inbox.arrive(replies.values())
            self._condition.notify_all()

    def cancel(self, request_id: str) -> None:
        """End a request early, from any thread; one that is not live is ignored."""
        self._ask(self._inbox.cancel, request_id)

    def pause(self, request_id: str) -> None:
        """Stop working on a request until `resume`, from any thread; one that is not live is ignored."""
        self._ask(self._inbox.pause, request_id)

    def resume(self, request_id: str) -> None:
        """Go on with a paused request, from any thread; one that is not live or not paused is ignored."""
        self._ask(self._inbox.resume, request_id)

    def _ask(self, what: Callable[[str], None], request_id: str) -> None:
        with self._condition:
            if request_id in self._replies:
                what(request_id)
                self._condition.notify_all()

    def explain(self, request_id: str) -> dict[str, Any] | None:
        """What became of a request and why, fit for JSON, from any thread; None for one not or no longer known."""
        return self._scheduler.journal.explain(request_id)

    def drain(self) -> None:
        """Accept nothing more; what is live goes on."""
        with self._condition:
            if self._state in ("starting", "ready"):
                self._state = "draining"
            self._condition.notify_all()

    def stop(self, timeout_s: float) -> bool:
        """Drain, for `timeout_s` seconds at most, then end what is left; True when nothing was left."""
        self.drain()
        with self._condition:
            thread = self._thread
            clean = self._condition.wait_for(lambda: not self._replies, timeout_s if thread is not None else 0.0)
            self._closing = True
            self._condition.notify_all()
        if thread is not None:
            thread.join(JOIN_S)
            if thread.is_alive():
                logger.error("the engine's thread is stuck in a step; its requests are ended without it")
        self._abandon(SHUTTING_DOWN)
        with self._condition:
            if self._state != "failed":
                self._state = "stopped"
        return clean

    def _run(self) -> None:
        try:
            while self._receive():
                self._turn()
            self._close()
        except BaseException as error:  # the thread is all there is: whatever ends it must end every stream
            logger.critical("the engine has failed", exc_info=error)
            with self._condition:
                self._state = "failed"
            reason = str(error) if isinstance(error, EngineFailed) else "an internal error"
            self._abandon(f"the engine has failed: {reason}")

    def _receive(self) -> bool:
        """Take in arrivals and cancellations, waiting for some when there is nothing to do; False: stop."""
        busy = self._scheduler.has_work
        if not busy:
            self._counters.check_idle(self._scheduler.pool)
        with self._condition:
            while not (busy or self._inbox or self._closing):
                self._condition.wait()
            if self._closing:
                return False
            news = self._inbox.take()
        batch = EventBatch()
        now = self._clock.now()
        for reply in news.arrivals:
            reply.sequence = sequence = self._scheduler.add(reply.request, now)
            if sequence.finish is not None:
                self._end(reply, batch, reply.event(Advance(sequence, (), sequence.finish), now))
        for request_id, pause in news.pauses:
            (self._scheduler.pause if pause else self._scheduler.resume)(request_id, now)
        for request_id in news.cancelled:
            self._fail_or_cancel(request_id, FinishReason.CANCELLED, None, batch)
        self._send(batch)
        return True

    def _turn(self) -> None:
        """One round: plan and dispatch the next step, then take in the oldest one's result."""
        clock = self._clock
        began = clock.now()
        recovery, pipeline = self._recovery, self._pipeline
        if recovery.searching and recovery.trial_over():
            if not pipeline:
                recovery.passed(began)
                return
            plan = None
        else:
            plan = self._scheduler.plan(began)
            plan = plan if plan.slices else None
        if plan is None and not pipeline:
            self._unstick()
            return
        try:
            if plan is not None:
                pipeline.dispatch(plan)
                if not pipeline.full:
                    return
            waiting = clock.now()
            result, collected, step_s = pipeline.collect()
        except Exception as error:
            self._recover(error)
            return
        recovery.worked()
        self._deliver(self._scheduler.commit(result, collected, step_s), collected)
        counters = self._counters
        counters.steps += 1
        counters.device_s = result.device_s
        counters.host_s = clock.now() - collected + waiting - began

    def _deliver(self, advances: list[Advance], now: float) -> None:
        batch = EventBatch()
        replies = self._replies
        for advance in advances:
            reply = replies.get(advance.sequence.id)
            if reply is None:
                continue
            try:
                event = reply.event(advance, now)
            except Exception:
                logger.exception("turning tokens into text failed for request %s", advance.sequence.id)
                event = reply.end(FinishReason.FAILED, now, "the generated tokens could not be turned into text")
            if event.finish is None:
                batch.add(reply.sink, event)
            else:
                self._end(reply, batch, event)
        self._send(batch)

    def _end(self, reply: Reply, batch: EventBatch, event: TokenEvent) -> None:
        """Send a reply's last event, unless another thread did."""
        assert event.finish is not None
        self._scheduler.finish(event.request_id, event.finish, self._clock.now())
        if self._replies.pop(event.request_id, None) is None:
            return
        self._counters.finished[event.finish] += 1
        if event.finish in (FinishReason.STOP, FinishReason.LENGTH):
            self._recovery.completed()
        batch.add(reply.sink, event._replace(usage=reply.usage()))

    def _fail_or_cancel(self, request_id: str, reason: FinishReason, message: str | None, batch: EventBatch) -> None:
        reply = self._replies.get(request_id)
        if reply is not None:
            self._end(reply, batch, reply.end(reason, self._clock.now(), message))

    def _send(self, batch: EventBatch) -> None:
        """Hand each sink its events; the requests of one that raises are ended, for nobody hears of them."""
        for sink, events in batch.by_sink.items():
            try:
                sink(events)
            except Exception:
                self._counters.sink_failures += 1
                logger.exception("a sink did not take its events; its requests are cancelled")
                for event in events:
                    if self._replies.pop(event.request_id, None) is not None:
                        self._counters.finished[FinishReason.CANCELLED] += 1
                        self._scheduler.cancel(event.request_id)
        if not self._replies and batch.by_sink:
            with self._condition:
                self._condition.notify_all()

    def _recover(self, error: Exception) -> None:
        """A step failed: compute everything again, and end the request at fault once it is known."""
        logger.error("a step failed: all requests are computed again", exc_info=error)
        self._counters.step_failures += 1
        self._pipeline.clear()
        culprit = self._recovery.failed(error, self._clock.now())
        if culprit is not None:
            batch = EventBatch()
            message = f"computing this request failed: {type(error).__name__}"
            self._fail_or_cancel(culprit, FinishReason.FAILED, message, batch)
            self._send(batch)

    def _unstick(self) -> None:
        """Watchdog: there is work but nothing to run, which cannot be; end a request rather than hang."""
        sequence = self._scheduler.next_in_line()
        if sequence is not None:
            logger.critical("no step can be planned though %s is live", sequence.id)
            batch = EventBatch()
            self._fail_or_cancel(sequence.id, FinishReason.FAILED, "the request could not be scheduled", batch)
            self._send(batch)

    def _close(self) -> None:
        """End what is left and take in the steps in flight, so that the pool is whole again."""
        batch = EventBatch()
        for request_id in list(self._replies):
            self._fail_or_cancel(request_id, FinishReason.FAILED, SHUTTING_DOWN, batch)
        self._send(batch)
        while self._pipeline:
            result, ended_s, step_s = self._pipeline.collect()
            self._scheduler.commit(result, ended_s, step_s)

    def _abandon(self, message: str) -> None:
        """End what is left without a working scheduler or thread."""
        batch = EventBatch()
        for request_id in list(self._replies):
            reply = self._replies.pop(request_id, None)
            if reply is not None:
                self._counters.finished[FinishReason.FAILED] += 1
                batch.add(reply.sink, reply.end(FinishReason.FAILED, self._clock.now(), message))
        self._send(batch)
