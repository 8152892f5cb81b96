"""What the engine says of itself, read anew at every scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from andes_jax.engine.contract import EngineAway
from andes_jax.request import Tier
from server.context import Engine

_GAUGES = {
    "slots_free": "Replies that could be generated besides those that are.",
    "pages_free": "Pages of the key-value cache that hold nothing.",
    "pages_cached": "Pages kept for a prompt that begins alike.",
    "pages_live": "Pages held by requests.",
    "pages_total": "All pages of the key-value cache.",
    "fragmentation": "1 - largest free run of pages / free pages.",
}
_COUNTERS = {
    "steps": "Steps computed.",
    "preemptions": "Times a request lost its pages or slot to another.",
    "prefix_hit_tokens": "Prompt tokens whose keys and values were reused.",
    "prompt_tokens": "Prompt tokens of all requests.",
    "generated_tokens": "Tokens generated.",
    "step_failures": "Steps that failed.",
    "invariant_failures": "Times the pages were not accounted for while idle; each is a defect.",
    "sink_failures": "Batches of events that a front end did not take; each is a defect.",
}
STATES = ("starting", "ready", "draining", "failed", "stopped")


class EngineCollector(Collector):
    """Prometheus collector over `engine.statistics()`."""

    def __init__(self, engine: Engine, compiles_after_ready: Callable[[], int]) -> None:
        self._engine = engine
        self._compiles_after_ready = compiles_after_ready

    def describe(self) -> list[Metric]:
        """Nothing: the engine need not answer when the collector is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric, from one snapshot; of an engine that cannot be asked, its state alone."""
        try:
            statistics = self._engine.statistics()
        except EngineAway:
            yield self._state()
            return
        for name, what in (("running", "Requests being computed."), ("waiting", "Requests waiting for a slot.")):
            family = GaugeMetricFamily(f"andes_engine_{name}", what, labels=["tier"])
            by_tier = getattr(statistics, name)
            for tier in Tier:
                family.add_metric([tier.name.lower()], by_tier[tier])
            yield family
        for name, what in _GAUGES.items():
            yield GaugeMetricFamily(f"andes_engine_{name}", what, value=getattr(statistics, name))
        for name, what in _COUNTERS.items():
            yield CounterMetricFamily(f"andes_engine_{name}", what, value=getattr(statistics, name))
        seconds = GaugeMetricFamily("andes_engine_step_seconds", "Time of the last step.", labels=["part"])
        seconds.add_metric(["host"], statistics.host_s)
        seconds.add_metric(["device"], statistics.device_s)
        yield seconds
        yield CounterMetricFamily(
            "andes_engine_compiles_after_ready",
            "Programs compiled after the engine said ready; each is a defect.",
            value=self._compiles_after_ready(),
        )
        yield self._state()

    def _state(self) -> Metric:
        state = GaugeMetricFamily("andes_engine_state", "1 for the state that the engine is in.", labels=["state"])
        for each in STATES:
            state.add_metric([each], float(self._engine.state == each))
        return state
