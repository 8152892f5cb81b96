"""Replays a workload in an open loop: requests are sent when they are due, whatever became of those before them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from andes_jax.loadtest.connections import Connections
from andes_jax.loadtest.dialect import Endpoint
from andes_jax.loadtest.http_response import ResponseError
from andes_jax.loadtest.prompts import Prompts
from andes_jax.loadtest.record import Record, Run
from andes_jax.loadtest.reply import StreamedReply
from andes_jax.loadtest.token_times import token_times
from andes_jax.request import FinishReason
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import UNFINISHED, Outcome

_TICK_S = 0.1  # how often the event loop's own lateness is looked at


@dataclass
class Counts:
    """Where a run has got to; read at any time, written by the run."""

    requests: int = 0  # of the workload
    sent: int = 0
    ended: dict[str, int] = field(default_factory=dict)  # by finish
    tokens: int = 0  # of ended requests

    @property
    def running(self) -> int:
        """Requests on their way."""
        return self.sent - sum(self.ended.values())


class Replay:
    """One run of a workload against one server."""

    def __init__(
        self,
        connections: Connections,
        endpoint: Endpoint,
        prompts: Prompts,
        *,
        drain_s: float = 120.0,
        on_tick: Callable[[Counts], None] = lambda counts: None,
    ) -> None:
        """A replay whose requests have `drain_s` seconds after the last was sent; `on_tick` is called now and then."""
        self._connections = connections
        self._endpoint = endpoint
        self._prompts = prompts
        self._drain_s = drain_s
        self._on_tick = on_tick
        self._records: list[Record] = []
        self._lags: list[float] = []
        self._stopping = asyncio.Event()
        self._overtime = False
        self._began_s = 0.0
        self._ticker: asyncio.TimerHandle | None = None
        self.counts = Counts()

    def stop(self) -> None:
        """End the run at once: what runs is left unfinished, what is not due yet is not sent."""
        self._stopping.set()

    async def run(self, arrivals: Sequence[Arrival]) -> Run:
        """Send every arrival when it is due and wait for what becomes of it. Each is counted exactly once."""
        loop = asyncio.get_running_loop()
        ordered = sorted(enumerate(arrivals), key=lambda pair: pair[1].arrived_s)
        self.counts.requests = len(ordered)
        cpu_s = time.process_time()
        self._began_s = loop.time()
        self._schedule_tick()
        tasks: list[asyncio.Task[None]] = []
        try:
            for index, arrival in ordered:
                request = self._endpoint.request(arrival, self._prompts, index)
                if not await self._until(self._began_s + arrival.arrived_s):
                    break
                self.counts.sent += 1
                tasks.append(loop.create_task(self._serve(index, arrival, request)))
                await asyncio.sleep(0)  # it begins now, and counts from here on, whatever comes
            await self._drain(tasks)
        finally:
            if self._ticker is not None:
                self._ticker.cancel()
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks)
        return Run(
            records=sorted(self._records, key=lambda record: record.index),
            duration_s=loop.time() - self._began_s,
            unsent=len(ordered) - self.counts.sent,
            lag_p99_s=float(np.percentile(self._lags, 99)) if self._lags else 0.0,
            cpu_s=time.process_time() - cpu_s,
        )

    async def _until(self, due_s: float) -> bool:
        """Wait for a time; False when the run was stopped instead."""
        try:
            async with asyncio.timeout_at(due_s):
                await self._stopping.wait()
        except TimeoutError:
            pass  # the time has come
        return not self._stopping.is_set()

    async def _drain(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for the replies under way, until the run is stopped or their time is over."""
        everything = asyncio.gather(*tasks, return_exceptions=True)
        stopped = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((everything, stopped), timeout=self._drain_s, return_when=asyncio.FIRST_COMPLETED)
        self._overtime = not everything.done() and not stopped.done()
        stopped.cancel()

    async def _serve(self, index: int, arrival: Arrival, request: bytes) -> None:
        """One request from its due time to its end, and its record."""
        due_s = self._began_s + arrival.arrived_s
        late_s = asyncio.get_running_loop().time() - due_s
        reply = StreamedReply()
        finish, error = FinishReason.FAILED.value, None
        leaves_s = None if arrival.cancel_after_s is None else due_s + arrival.cancel_after_s
        try:
            async with asyncio.timeout_at(leaves_s) as patience:
                await self._connections.exchange(request, reply)
            reply.conclude()
            finish, error = _end_of(reply)
        except asyncio.CancelledError:
            finish, error = UNFINISHED, None
            if self._overtime:
                finish, error = FinishReason.FAILED.value, f"not finished {self._drain_s:g} s after the last request"
        except (OSError, ResponseError) as failure:
            if patience.expired():
                finish = FinishReason.CANCELLED.value
            else:
                error = f"{type(failure).__name__}: {failure}"
        if reply.finish is not None and reply.error is None:
            finish, error = _end_of(reply)  # its end had come before whatever happened to the connection
        self._note(index, arrival, reply, finish, error, late_s)

    def _note(
        self, index: int, arrival: Arrival, reply: StreamedReply, finish: str, error: str | None, late_s: float
    ) -> None:
        count = reply.count("completion_tokens")
        times_s = token_times(reply.log, count) - (self._began_s + arrival.arrived_s)
        server = _numbers(reply.usage.get("andes"))
        waited_s = server["waited_ms"] / 1000 if "waited_ms" in server else None
        outcome = Outcome(arrival, times_s, finish, waited_s, int(server.get("preemptions", 0)))
        record = Record(index, outcome, late_s, reply.count("prompt_tokens"), count, error, server)
        self._records.append(record)
        self.counts.ended[finish] = self.counts.ended.get(finish, 0) + 1
        self.counts.tokens += len(times_s)

    def _schedule_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticker = loop.call_later(_TICK_S, self._tick, loop.time() + _TICK_S)

    def _tick(self, due_s: float) -> None:
        self._lags.append(asyncio.get_running_loop().time() - due_s)
        self._on_tick(self.counts)
        self._schedule_tick()


def _numbers(told: object) -> dict[str, float]:
    """The numbers of an object such as usage.andes."""
    pairs = told.items() if isinstance(told, dict) else ()
    return {str(name): float(value) for name, value in pairs if isinstance(value, int | float)}


def _end_of(reply: StreamedReply) -> tuple[str, str | None]:
    """Finish and error of a reply that was received whole."""
    if reply.error is not None:
        return (FinishReason.REFUSED if reply.refused else FinishReason.FAILED).value, reply.error
    return (FinishReason.LENGTH if reply.finish == "length" else FinishReason.STOP).value, None
