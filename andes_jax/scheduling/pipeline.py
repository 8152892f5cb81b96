"""Steps on the device: given to it one ahead, and timed."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from andes_jax.clock import Clock
from andes_jax.scheduling.plan import Runner, StepPlan, StepResult

STEPS_AHEAD = 2  # steps dispatched at once: one computes while the next is being prepared


class _Step(NamedTuple):
    number: int
    dispatched_s: float


class Pipeline:
    """A runner, and the steps that are on it."""

    def __init__(self, runner: Runner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock
        self._steps: deque[_Step] = deque()
        self._free_s = 0.0  # when the last step ended

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def full(self) -> bool:
        """Whether the next thing to do is to wait for a step."""
        return len(self._steps) >= STEPS_AHEAD

    def dispatch(self, plan: StepPlan) -> None:
        """Give a step to the device; raises what the runner raises."""
        self._steps.append(_Step(plan.number, self._clock.now()))
        self._runner.dispatch(plan)

    def collect(self) -> tuple[StepResult, float, float]:
        """Wait for the oldest step: its result, when it ended, and for how many seconds the device was at it.

        Raises what the runner raises, and RuntimeError for another step's result.
        """
        result = self._runner.collect()
        step = self._steps[0]
        if result.number != step.number:
            raise RuntimeError(f"got the result of step {result.number}, not of {step.number}")
        self._steps.popleft()
        ended_s = self._clock.now()
        seconds = ended_s - max(step.dispatched_s, self._free_s)
        self._free_s = ended_s
        return result, ended_s, seconds

    def skip_to(self, ended_s: float) -> None:
        """Steps went by on the device that were not given to it here, with none in flight; the last ended then."""
        assert not self._steps
        self._free_s = ended_s

    def clear(self) -> None:
        """The steps on the device bring nothing any more."""
        self._steps.clear()
