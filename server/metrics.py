"""Prometheus metrics of one application: what its calls did, and what its engine says of itself when asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from andes_jax.events import TokenEvent, Usage
from andes_jax.request import FinishReason, Tier
from server.context import Engine
from server.engine_metrics import EngineCollector
from server.stream_profile import CallProfile

_LONG_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_SHORT_S = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
_WAIT_S = (0.005, 0.01, 0.02, 0.03, 0.05, *_LONG_S[1:])
_QOE = (0.1, 0.25, 0.5, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)
_TIERS = {tier: tier.name.lower() for tier in Tier}


class Metrics:
    """Every metric, in a registry of its own."""

    def __init__(self, engine: Engine, compiles_after_ready: Callable[[], int], shared: Path | None = None) -> None:
        """`shared` is the folder in which processes that serve the same addresses keep count together."""
        self.registry = registry = CollectorRegistry()
        self.http_requests = Counter(
            "andes_http_requests", "HTTP calls answered.", ["endpoint", "status"], registry=registry
        )
        self.started = Counter(
            "andes_requests_started", "Replies begun; a call with n choices begins n.", ["endpoint"], registry=registry
        )
        self.finished = Counter(
            "andes_requests_finished",
            "Replies ended, each once: stop, length, cancelled, refused or failed.",
            ["endpoint", "finish_reason"],
            registry=registry,
        )
        self.refused = Counter(
            "andes_requests_refused", "Calls the engine did not take.", ["endpoint", "code"], registry=registry
        )
        self.streams_open = Gauge(
            "andes_streams_open", "Streamed replies being sent.", registry=registry, multiprocess_mode="livesum"
        )
        self.first_token = _histogram("first_token", "From the call's arrival to its first token.", _LONG_S, registry)
        self.inter_token = _histogram("inter_token", "Between tokens of a reply.", _SHORT_S, registry)
        self.per_token = _histogram("per_token", "Mean time per token after a reply's first.", _SHORT_S, registry)
        self.end_to_end = _histogram("end_to_end", "From the call's arrival to a reply's end.", _LONG_S, registry)
        self.admission = _histogram("admission", "Reading, checking and encoding a call.", _SHORT_S, registry)
        self.queue_wait = _histogram(
            "queue_wait", "From a request's arrival to the first step that worked on it.", _WAIT_S, registry
        )
        self.qoe = Histogram(
            "andes_qoe",
            "Quality of experience of replies with a reader, 1 when no token came late.",
            ["tier"],
            buckets=_QOE,
            registry=registry,
        )
        self.preemptions = Counter(
            "andes_preemptions", "Times that ended replies had lost their place to others.", ["tier"], registry=registry
        )
        self.pauses = Counter(
            "andes_unread_pauses", "Times replies were paused since their client left them unread.", registry=registry
        )
        self.log_lines_dropped = Counter(
            "andes_request_log_dropped", "Lines that the request log lacks.", ["reason"], registry=registry
        )
        self._shown = registry
        if shared is not None:
            self._shown = CollectorRegistry()
            MultiProcessCollector(self._shown, str(shared))
        self._shown.register(EngineCollector(engine, compiles_after_ready))

    def call(self, endpoint: str, tier: Tier, arrived_s: float, profile: CallProfile | None = None) -> CallMeter:
        """A meter for the requests of one call that came at `arrived_s` on the engine's clock."""
        if profile is None:
            return CallMeter(self, endpoint, _TIERS[tier], arrived_s)
        return ProfiledMeter(profile, self, endpoint, _TIERS[tier], arrived_s)

    def render(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._shown)


def _histogram(name: str, what: str, buckets: tuple[float, ...], registry: CollectorRegistry) -> Histogram:
    return Histogram(f"andes_{name}_seconds", what, ["tier"], buckets=buckets, registry=registry)


class CallMeter:
    """Measures the requests of one call. Times are the engine's, taken when a step's tokens are known."""

    def __init__(self, metrics: Metrics, endpoint: str, tier: str, arrived_s: float) -> None:
        self._endpoint = endpoint
        self._arrived_s = arrived_s
        self._metrics = metrics
        self._inter_token = metrics.inter_token.labels(tier)
        self._tier = tier
        self._tokens: dict[str, tuple[float, float, int]] = {}  # first and last token's time and count, by request

    def admitted(self, now_s: float) -> None:
        """The call is about to be submitted."""
        self._metrics.admission.labels(self._tier).observe(now_s - self._arrived_s)

    def started(self, count: int = 1) -> None:
        """The engine took so many requests."""
        self._metrics.started.labels(self._endpoint).inc(count)

    def refused(self, code: str) -> None:
        """The engine did not take the call."""
        self._metrics.refused.labels(self._endpoint, code).inc()

    def event(self, event: TokenEvent) -> None:
        """News of one request."""
        count = len(event.token_ids)
        if count:
            self._count(event, count)
        if event.finish is not None:
            self._measure_end(event)
            self.served(event.usage)
            self.ended(event.finish)

    def served(self, usage: Usage | None) -> None:
        """What the engine says of one request that is over, whoever ended it."""
        if usage is None:
            return
        if usage.waited_s is not None:
            self._metrics.queue_wait.labels(self._tier).observe(usage.waited_s)
        if usage.qoe is not None:
            self._metrics.qoe.labels(self._tier).observe(usage.qoe)
        if usage.preemptions:
            self._metrics.preemptions.labels(self._tier).inc(usage.preemptions)

    def paused(self, count: int) -> None:
        """So many requests were paused since their client does not read."""
        self._metrics.pauses.inc(count)

    def ended(self, reason: FinishReason) -> None:
        """One request that had started is over; called once for each."""
        self._metrics.finished.labels(self._endpoint, reason.value).inc()

    def _count(self, event: TokenEvent, count: int) -> None:
        known = self._tokens.get(event.request_id)
        if known is None:
            self._metrics.first_token.labels(self._tier).observe(event.emitted_s - self._arrived_s)
            self._tokens[event.request_id] = (event.emitted_s, event.emitted_s, count)
            return
        first_s, last_s, before = known
        # Several tokens that come at once share the gap before them.
        for _ in range(count):
            self._inter_token.observe((event.emitted_s - last_s) / count)
        self._tokens[event.request_id] = (first_s, event.emitted_s, before + count)

    def _measure_end(self, event: TokenEvent) -> None:
        self._metrics.end_to_end.labels(self._tier).observe(event.emitted_s - self._arrived_s)
        first_s, last_s, count = self._tokens.pop(event.request_id, (0.0, 0.0, 0))
        if count > 1:
            self._metrics.per_token.labels(self._tier).observe((last_s - first_s) / (count - 1))


class ProfiledMeter(CallMeter):
    """Tells a call's profile of its events as well: whoever is not profiled pays nothing for it."""

    def __init__(self, profile: CallProfile, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._profile = profile

    def event(self, event: TokenEvent) -> None:
        self._profile.event(event)
        super().event(event)
