"""An engine over the fake runner, stopped after each test whatever happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from andes_jax.clock import WallClock
from andes_jax.engine import Engine
from tests.fakes import Inbox, Rig, letters


class Served:
    """One engine, what it runs on, and a sink."""

    def __init__(self, max_waiting: int, **options) -> None:
        self.rig = Rig(**options)
        self.runner = self.rig.runner
        self.pool = self.rig.pool
        self.inbox = Inbox()
        self.engine = Engine(self.rig.scheduler, self.runner, letters(), WallClock(), max_waiting=max_waiting)

    def assert_at_rest(self) -> None:
        statistics = self.engine.statistics()
        assert self.pool.live == 0 and statistics.slots_free == self.rig.limits.max_sequences
        assert sum(statistics.running.values()) == sum(statistics.waiting.values()) == 0
        assert statistics.invariant_failures == 0 and self.runner.violations == []
        self.pool.check()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Makes engines, not yet started."""
    made: list[Served] = []

    def make(max_waiting: int = 1000, **options) -> Served:
        made.append(Served(max_waiting, **options))
        return made[-1]

    yield make
    for served in made:
        served.engine.stop(0.0)
