"""What --profile-streaming logs: a line for each chunk of a stream, with its intervals and what made them long."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from andes_jax.events import TokenEvent
from andes_jax.profiling.causes import SendTimes, cause_of_generation, cause_of_send, cause_of_wait
from andes_jax.profiling.chunk import Chunk
from andes_jax.profiling.pauses import CollectorPauses
from andes_jax.profiling.steps import Gap, StepHistory, StepNote
from andes_jax.request import Tier
from server.context import ServerContext

logger = logging.getLogger("andes_jax.stream")


class _Token(NamedTuple):
    """News of one request with a token, on its way to the client. Times are the engine clock's, in seconds."""

    request_id: str
    since_s: float  # when the token before it was known, or the request had arrived
    known_s: float
    delivered_s: float  # when this event loop had it
    tokens: int
    gap: Gap


class StreamProfiler:
    """Of one application. Steps are told by the engine's thread, everything else by the event loop's."""

    def __init__(self, context: ServerContext) -> None:
        self.clock = context.clock
        self.explain = context.engine.explain
        self.pauses = CollectorPauses(context.clock)
        self.pauses.start()
        self._steps: StepHistory | None = None
        if context.watch_steps is not None:
            self._steps = StepHistory()
            context.watch_steps(self._on_step)

    def close(self) -> None:
        """Look no longer at the garbage collector."""
        self.pauses.stop()

    def _on_step(self, note: StepNote) -> None:
        assert self._steps is not None
        self._steps.add(note)

    def gap(self, request_id: str, since_s: float, until_s: float) -> Gap:
        """How the time before a token was spent; an engine elsewhere does not tell, and then all of it is work."""
        if self._steps is None:
            return Gap(max(until_s - since_s, 0.0), 0.0, None)
        return self._steps.gap(request_id, since_s, until_s)

    def open(self, call_id: str, tier: Tier, arrived_s: float) -> CallProfile:
        """The profile of one streamed call that came at `arrived_s` on the engine's clock."""
        return CallProfile(self, call_id, tier.name.lower(), arrived_s)


class CallProfile:
    """Follows the tokens of one call until they are sent."""

    def __init__(self, profiler: StreamProfiler, call_id: str, tier: str, arrived_s: float) -> None:
        self._profiler = profiler
        self._call_id = call_id
        self._tier = tier
        self._arrived_s = arrived_s
        self._last_s: dict[str, float] = {}  # when each request's last token was known
        self._waiting: list[_Token] = []  # nobody has taken them
        self._leaving: list[_Token] = []  # taken, and being sent
        self._taken_s = 0.0
        self._free_s = arrived_s  # when the last send was over

    def event(self, event: TokenEvent) -> None:
        """The event loop has news of one of the call's requests."""
        if not event.token_ids:
            return
        name, known_s = event.request_id, event.emitted_s
        since_s = self._last_s.get(name, self._arrived_s)
        self._last_s[name] = known_s
        gap = self._profiler.gap(name, since_s, known_s)
        now = self._profiler.clock.now()
        self._waiting.append(_Token(name, since_s, known_s, now, len(event.token_ids), gap))

    def taken(self) -> None:
        """All that has come is about to be sent."""
        self._leaving, self._waiting = self._leaving + self._waiting, []
        self._taken_s = self._profiler.clock.now()

    def sent(self, size: int) -> None:
        """So many bytes with what was taken have been handed over; a line is logged where tokens were among it."""
        tokens, self._leaving = self._leaving, []
        now = self._profiler.clock.now()
        if tokens:
            logger.info("%s", self._chunk(tokens, size, now).line())
        self._free_s = now

    def _chunk(self, tokens: list[_Token], size: int, now: float) -> Chunk:
        slowest = max(tokens, key=lambda token: token.gap.working_s)
        longest_wait = max(tokens, key=lambda token: token.gap.waiting_s)
        first = min(tokens, key=lambda token: token.known_s)
        times = self._send_times(first, now)
        chunk = Chunk(
            at_s=round(time.time(), 4),
            request=self._call_id,
            tier=self._tier,
            bytes=size,
            tokens=sum(token.tokens for token in tokens),
            generation_ms=_ms(slowest.gap.working_s),
            wait_ms=_ms(longest_wait.gap.waiting_s),
            send_ms=_ms(now - first.known_s),
        )
        broke = chunk.broke
        if "generation" in broke:
            chunk.causes["generation"] = cause_of_generation(slowest.gap.longest)
        if "send" in broke:
            chunk.causes["send"] = cause_of_send(times)
        if "wait" in broke:
            token, began_s = longest_wait, self._arrived_s
            record = self._profiler.explain(token.request_id)
            chunk.causes["wait"] = cause_of_wait(record, token.since_s - began_s, token.known_s - began_s)
        return chunk

    def _send_times(self, token: _Token, now: float) -> SendTimes:
        ready_s = min(max(token.delivered_s, self._free_s), self._taken_s)
        return SendTimes(
            loop_s=token.delivered_s - token.known_s,
            earlier_s=ready_s - token.delivered_s,
            held_s=self._taken_s - ready_s,
            send_s=now - self._taken_s,
            collector_s=self._profiler.pauses.seconds(token.known_s, now),
        )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
