"""An engine over the fake runner, stopped after each test whatever happened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from andes_jax.clock import WallClock
from andes_jax.engine import Engine
from andes_jax.events import EventSink, TokenEvent
from andes_jax.request import Request
from andes_jax.scheduling.plan import StepResult
from tests.fakes import Inbox, Rig, letters


class Served:
    """One engine, what it runs on, and a sink."""

    def __init__(self, max_waiting: int, **options) -> None:
        self.rig = Rig(**options)
        self.runner = self.rig.runner
        self.pool = self.rig.pool
        self.inbox = Inbox()
        self.engine = Engine(self.rig.scheduler, self.runner, letters(), WallClock(), max_waiting=max_waiting)

    def when_collected(self, number: int, what: Callable[[], None]) -> None:
        """Have something done when the runner gives the result of that step."""
        collect = self.runner.collect

        def collected() -> StepResult:
            result = collect()
            if result.number == number:
                what()
            return result

        self.runner.collect = collected

    def used_again(self, request: Request) -> tuple[EventSink, threading.Event]:
        """A sink that asks for the request once more, at the inbox, when it has ended; and when that has happened."""
        again = threading.Event()

        def sink(events: Sequence[TokenEvent]) -> None:
            self.inbox(events)
            if events[-1].finish is not None and not again.is_set():
                again.set()
                self.engine.submit(request, self.inbox)

        return sink, again

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
