"""The engine's own figures at a scrape."""

from __future__ import annotations

import dataclasses

from prometheus_client import CollectorRegistry, generate_latest

from andes_jax.engine.statistics import EngineStatistics
from andes_jax.request import Tier
from server.engine_metrics import EngineCollector
from tests.server.fake_engine import FakeStatistics


class Engine:
    state = "draining"

    def statistics(self):
        running = {Tier.REALTIME: 3, Tier.STREAMING: 0, Tier.BATCH: 1}
        return FakeStatistics(running, dict.fromkeys(Tier, 2), steps=7, pages_live=5, host_s=0.5, device_s=0.25)


def test_one_snapshot_a_scrape():
    registry = CollectorRegistry()
    registry.register(EngineCollector(Engine(), lambda: 4))
    text = generate_latest(registry).decode()
    for line in (
        'andes_engine_running{tier="realtime"} 3.0',
        'andes_engine_running{tier="streaming"} 0.0',
        'andes_engine_waiting{tier="batch"} 2.0',
        "andes_engine_pages_live 5.0",
        "andes_engine_steps_total 7.0",
        'andes_engine_step_seconds{part="device"} 0.25',
        "andes_engine_compiles_after_ready_total 4.0",
        'andes_engine_state{state="draining"} 1.0',
        'andes_engine_state{state="ready"} 0.0',
    ):
        assert line in text.splitlines()


def test_the_real_engine_says_what_is_read():
    ours = {field.name for field in dataclasses.fields(FakeStatistics)}
    assert ours <= {field.name for field in dataclasses.fields(EngineStatistics)}
