"""andes_jax.scheduling.pipeline: one step ahead, and the device's own time for each."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from andes_jax.clock import VirtualClock
from andes_jax.scheduling.pipeline import Pipeline
from andes_jax.scheduling.plan import StepPlan, StepResult


class TimedRunner:
    """Each step takes two seconds from when it, and the one before it, are there."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.ends: deque[tuple[int, float]] = deque()
        self.free_s = 0.0
        self.lie = 0

    def dispatch(self, plan: StepPlan) -> None:
        self.free_s = max(self.free_s, self.clock.now()) + 2.0
        self.ends.append((plan.number, self.free_s))

    def collect(self) -> StepResult:
        number, end_s = self.ends.popleft()
        self.clock.advance_to(end_s)
        return StepResult(number + self.lie, np.zeros(0, np.int32), np.zeros(0, bool))

    def reset(self) -> None:
        self.ends.clear()


def test_a_step_that_waited_for_another_is_timed_from_the_other_ones_end():
    clock = VirtualClock(10.0)
    pipeline = Pipeline(TimedRunner(clock), clock)
    pipeline.dispatch(StepPlan(1))
    assert len(pipeline) == 1 and not pipeline.full
    clock.advance(0.5)
    pipeline.dispatch(StepPlan(2))
    assert pipeline.full
    assert [pipeline.collect()[1:] for _ in range(2)] == [(12.0, 2.0), (14.0, 2.0)]
    clock.advance(1.0)
    pipeline.dispatch(StepPlan(3))
    assert pipeline.collect()[1:] == (17.0, 2.0)


def test_another_steps_result_is_an_error_and_clearing_forgets_it():
    clock = VirtualClock()
    runner = TimedRunner(clock)
    pipeline = Pipeline(runner, clock)
    pipeline.dispatch(StepPlan(1))
    runner.lie = 1
    with pytest.raises(RuntimeError, match="step 2, not of 1"):
        pipeline.collect()
    pipeline.clear()
    assert len(pipeline) == 0


def test_steps_that_went_by_elsewhere_count_as_the_devices_time():
    clock = VirtualClock()
    runner = TimedRunner(clock)
    pipeline = Pipeline(runner, clock)
    pipeline.dispatch(StepPlan(1))
    with pytest.raises(AssertionError):
        pipeline.skip_to(5.0)
    pipeline.collect()
    runner.free_s = 7.0
    pipeline.skip_to(7.0)
    pipeline.dispatch(StepPlan(2))
    assert pipeline.collect()[1:] == (9.0, 2.0)
