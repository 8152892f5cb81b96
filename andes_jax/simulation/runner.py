"""A runner that computes nothing: steps take the time that a model of step times says, on a virtual clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from andes_jax.clock import VirtualClock
from andes_jax.scheduling.plan import StepPlan, StepResult
from andes_jax.scheduling.step_time import StepTimes, StepWork

TOKEN, STOP_TOKEN = 0, 1  # all that is ever drawn


class _Step(NamedTuple):
    number: int
    start_s: float
    end_s: float
    token_ids: np.ndarray  # [slices] int32


class SimulatedRunner:
    """A Runner whose device computes one step after the other, without a gap where the next is there in time.

    A reply ends with STOP_TOKEN at its true length, as a model's does; its sampling seed is its place in `lengths`.
    """

    def __init__(self, clock: VirtualClock, times: StepTimes, lengths: Sequence[int] = ()) -> None:
        """`lengths[i]`: output tokens of the reply with seed i; a seed beyond them never draws STOP_TOKEN."""
        self._clock = clock
        self._times = times
        self._lengths = lengths
        self._last_of: dict[int, int] = {}  # slot -> output tokens before the draw of its last one
        self._steps: deque[_Step] = deque()
        self.free_s = clock.now()  # when the device has done all it was given
        self.busy_s = 0.0  # seconds of computing so far

    def dispatch(self, plan: StepPlan) -> None:
        for admission in plan.admissions:
            seed = admission.sampling.seed
            self._last_of[admission.slot] = self._lengths[seed] - 1 if seed < len(self._lengths) else -1
        token_ids = np.zeros(len(plan.slices), np.int32)
        last_of = self._last_of
        for index, part in enumerate(plan.slices):
            if part.generated == last_of.get(part.slot) and part.sample:
                token_ids[index] = STOP_TOKEN
        start = max(self.free_s, self._clock.now())
        end = start + self._times.seconds(work_of(plan))
        self._steps.append(_Step(plan.number, start, end, token_ids))
        self.occupy(end, end - start)

    def collect(self) -> StepResult:
        """Turns the clock to the oldest step's end, unless that has passed."""
        step = self._steps.popleft()
        self._clock.advance_to(step.end_s)
        return StepResult(
            step.number, step.token_ids, np.ones(len(step.token_ids), np.bool_), device_s=step.end_s - step.start_s
        )

    def reset(self) -> None:
        self._steps.clear()
        self._last_of.clear()

    @property
    def next_end_s(self) -> float:
        """When the oldest step dispatched ends; raises IndexError without one."""
        return self._steps[0].end_s

    def occupy(self, until_s: float, busy_s: float) -> None:
        """The device is at work until then, and computes for `busy_s` of it."""
        self.free_s = until_s
        self.busy_s += busy_s


def work_of(plan: StepPlan) -> StepWork:
    """A plan in the terms that its time depends on. One-token slices run together, as the real runner packs them."""
    decodes = context = 0
    prefills: list[tuple[int, int]] = []
    for part in plan.slices:
        if part.count == 1 and part.score_ids is None:
            decodes += 1
            context += part.first
        else:
            prefills.append((part.count, part.first))
    copied = 0
    if plan.saves or plan.loads:
        copied = sum(len(copy.device_pages) for copy in (*plan.saves, *plan.loads))
    return StepWork(decodes, context + decodes, tuple(prefills), copied)
