"""An engine without a model: a thread that says, token by token, what a script tells it to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from andes_jax.clock import WallClock
from andes_jax.events import EventSink, TokenEvent, TokenLogprobs, Usage
from andes_jax.request import FinishReason, Refusal, Request, Tier
from andes_jax.text.reply import ReplyText
from andes_jax.text.token_table import TokenTable

EOS = 256


@dataclass(frozen=True)
class FakeLimits:
    max_model_len: int = 2048
    max_sequences: int = 64
    pool_tokens: int = 10_000_000
    max_live: int = 10_000


@dataclass(frozen=True)
class FakeStatistics:
    running: dict[Tier, int]
    waiting: dict[Tier, int]
    slots_free: int = 64
    pages_free: int = 512
    pages_cached: int = 0
    pages_live: int = 0
    pages_total: int = 512
    steps: int = 0
    preemptions: int = 0
    prefix_hit_tokens: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    step_failures: int = 0
    invariant_failures: int = 0
    sink_failures: int = 0
    fragmentation: float = 0.0
    host_s: float = 0.0
    device_s: float = 0.0
    paused: int = 0
    host_pages_used: int = 0
    saved_pages: int = 0
    loaded_pages: int = 0
    recomputed_tokens: int = 0
    finished: dict[FinishReason, int] = field(default_factory=lambda: dict.fromkeys(FinishReason, 0))


@dataclass
class _Live:
    request: Request
    sink: EventSink
    script: tuple[int, ...]
    reply: ReplyText
    drawn: int = 0
    cancelled: bool = False
    paused: bool = False
    scored: bool = False


Script = Callable[[Request], tuple[int, ...]]


def letters(request: Request) -> tuple[int, ...]:
    """A reply for ever, which differs by choice and seed."""
    start = request.sampling.choice + request.sampling.seed % 7
    return tuple(97 + (start + position) % 26 for position in range(request.sampling.max_tokens))


class FakeEngine:
    """Follows the contract of andes_jax.engine.Engine. `gap_s` is the time of a step."""

    def __init__(self, table: TokenTable, script: Script = letters, *, gap_s: float = 0.0, max_waiting: int = 10_000):
        self._table = table
        self.script = script
        self.gap_s = gap_s
        self.tokens_per_step = 1
        self.max_waiting = max_waiting
        self.fails: Callable[[Request], bool] = lambda request: False
        self.limits = FakeLimits()
        self._clock = WallClock()
        self._lock = threading.Condition()
        self._live: dict[str, _Live] = {}
        self.state = "ready"
        self.submitted: list[Request] = []
        self.cancelled: list[str] = []
        self.told: list[tuple[str, str]] = []  # "pause" or "resume", and the request
        self.experience: dict[str, Any] = {}  # of Usage, for requests with a reader
        self.explained: dict[str, dict[str, Any]] = {}
        self._generated = 0
        self._steps = 0
        self._held = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def hold(self) -> None:
        """Begin no step until released."""
        with self._lock:
            self._held = True

    def release(self) -> None:
        with self._lock:
            self._held = False
            self._lock.notify_all()

    @property
    def live(self) -> list[str]:
        with self._lock:
            return list(self._live)

    @property
    def room(self) -> int:
        return max(0, self.max_waiting - len(self._live))

    def submit_all(self, requests: Sequence[Request], sink: EventSink) -> None:
        with self._lock:
            if self.state in ("draining", "stopped"):
                raise Refusal("The server is shutting down.", "shutting_down")
            if len(self._live) + len(requests) > self.max_waiting:
                raise Refusal("Too many requests are waiting.", "engine_overloaded")
            for request in requests:
                reply = ReplyText(self._table, request.stop, request.skip_special_tokens)
                self._live[request.id] = _Live(request, sink, self.script(request), reply)
                self.submitted.append(request)
            self._lock.notify_all()

    def cancel(self, request_id: str) -> None:
        with self._lock:
            if request_id in self._live:
                self._live[request_id].cancelled = True
                self.cancelled.append(request_id)
                self._lock.notify_all()

    def pause(self, request_id: str) -> None:
        self._set_paused(request_id, "pause")

    def resume(self, request_id: str) -> None:
        self._set_paused(request_id, "resume")

    def _set_paused(self, request_id: str, what: str) -> None:
        with self._lock:
            self.told.append((what, request_id))
            if request_id in self._live:
                self._live[request_id].paused = what == "pause"
                self._lock.notify_all()

    def explain(self, request_id: str) -> dict[str, Any] | None:
        return self.explained.get(request_id)

    def drain(self) -> None:
        with self._lock:
            self.state = "draining"

    def stop(self, timeout_s: float) -> bool:
        with self._lock:
            self.state = "draining"
            clean = self._lock.wait_for(lambda: not self._live, timeout_s)
            for live in self._live.values():
                event = self._event(live, "", (), FinishReason.FAILED, "server is shutting down")
                live.sink([event])
            self._live.clear()
            self.state = "stopped"
            self._closing = True
            self._lock.notify_all()
        self._thread.join()
        return clean

    def statistics(self) -> FakeStatistics:
        with self._lock:
            running = {tier: sum(live.request.tier is tier for live in self._live.values()) for tier in Tier}
            return FakeStatistics(
                running,
                dict.fromkeys(Tier, 0),
                slots_free=64 - len(self._live),
                steps=self._steps,
                generated_tokens=self._generated,
            )

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: (self._going and not self._held) or self._closing)
                if self._closing:
                    return
                if self.gap_s:
                    self._lock.wait_for(lambda: self._closing, self.gap_s)
                self._step()
                self._lock.notify_all()
            time.sleep(0)  # or those who wait for the lock may never get it

    @property
    def _going(self) -> list[_Live]:
        return [live for live in self._live.values() if live.cancelled or not live.paused]

    def _step(self) -> None:
        self._steps += 1
        by_sink: dict[int, tuple[EventSink, list[TokenEvent]]] = {}
        for live in self._going:
            event = self._advance(live)
            by_sink.setdefault(id(live.sink), (live.sink, []))[1].append(event)
            if event.finish is not None:
                del self._live[live.request.id]
        for sink, events in by_sink.values():
            sink(events)

    def _advance(self, live: _Live) -> TokenEvent:
        request = live.request
        sampling = request.sampling
        if live.cancelled:
            return self._event(live, "", (), FinishReason.CANCELLED)
        if self.fails(request):
            return self._event(live, "", (), FinishReason.FAILED, "the step failed")
        text, ids, finish = "", [], None
        while finish is None and len(ids) < self.tokens_per_step:
            if live.drawn >= sampling.max_tokens:
                finish = FinishReason.LENGTH
                break
            token = live.script[live.drawn] if live.drawn < len(live.script) else EOS
            live.drawn += 1
            ids.append(token)
            self._generated += 1
            if token in sampling.stop_ids:
                finish = FinishReason.STOP
                break
            piece = live.reply.push([token])
            text += piece.text
            if piece.stopped:
                finish = FinishReason.STOP
            elif live.drawn >= sampling.max_tokens:
                finish = FinishReason.LENGTH
        if finish is not None:
            text += live.reply.finish()
        return self._event(live, text, tuple(ids), finish)

    def _event(
        self,
        live: _Live,
        text: str,
        ids: tuple[int, ...],
        finish: FinishReason | None = None,
        message: str | None = None,
    ) -> TokenEvent:
        sampling = live.request.sampling
        wanted = sampling.top_logprobs
        scored = sampling.prompt_logprobs and not live.scored
        prompt = live.request.prompt_ids
        live.scored = True
        experience = self.experience if live.request.qoe is not None else {}
        return TokenEvent(
            request_id=live.request.id,
            emitted_s=self._clock.now(),
            text=text,
            token_ids=ids,
            logprobs=() if wanted is None else tuple(self._logprob(each, wanted) for each in ids),
            prompt_logprobs=(None, *(self._logprob(each, wanted or 0) for each in prompt[1:])) if scored else None,
            finish=finish,
            message=message,
            usage=None if finish is None else Usage(len(prompt), live.drawn, **experience),
        )

    @staticmethod
    def _logprob(token: int, top: int) -> TokenLogprobs:
        others = [token, *(each for each in range(top) if each != token)][:top]
        # Masked tokens come as minus infinity from an engine that is not careful.
        values = tuple(-0.5 if each == token else float("-inf") for each in others)
        return TokenLogprobs(token, -0.5, tuple(others), values)
