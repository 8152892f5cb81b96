"""Step times learnt while serving: a line in the amounts of work, fitted to the steps seen, recent ones more."""

from __future__ import annotations

import numpy as np

from andes_jax.scheduling.step_time import StepWork

FEATURES = 7
FORGET = 0.999  # weight of a step against the one after it
RENEW_STEPS = 16
SWEEPS = 20
OUTLIER = 5.0  # times the expected time; a longer step counts as that long (a pause of the machine teaches nothing)
PRIOR_S = (1e-3, 1e-5, 1e-9, 1e-4, 1e-5, 1e-10, 1e-5)  # seconds per unit of each feature, before anything is known
PRIOR_WEIGHT = 1e-3


def features(work: StepWork) -> tuple[float, ...]:
    """A step; decodes; positions they attend to; prefill slices; their tokens; tokens times positions; copied pages."""
    tokens = attended = 0
    for count, before in work.prefills:
        tokens += count
        attended += count * (before + count // 2)
    return (1.0, work.decodes, work.decode_context, len(work.prefills), tokens, attended, work.copied_pages)


class LearnedTimes:
    """StepTimes by non-negative least squares over relative errors."""

    def __init__(self, warmup_steps: int) -> None:
        """Predictions are to steer only after so many steps."""
        self._warmup_steps = warmup_steps
        self._scale = 1.0 / np.asarray(PRIOR_S)
        self._normal = PRIOR_WEIGHT * np.eye(FEATURES)  # in units of the prior
        self._target = PRIOR_WEIGHT * np.ones(FEATURES)
        self._solution = np.ones(FEATURES)
        self._seconds = np.asarray(PRIOR_S).tolist()
        self.seen = 0

    @property
    def ready(self) -> bool:
        """Whether enough steps have been seen."""
        return self.seen >= self._warmup_steps

    def observe(self, work: StepWork, seconds: float) -> None:
        """A step with this work took so long."""
        if seconds <= 0:
            return
        if self.ready:
            # Not less than a step's prior: a cost fitted to nothing must not turn a step into one without a duration.
            seconds = min(seconds, max(OUTLIER * self.seconds(work), PRIOR_S[0]))
        row = np.asarray(features(work)) / (self._scale * seconds)
        self._normal *= FORGET
        self._target *= FORGET
        self._normal += np.outer(row, row)
        self._target += row
        self.seen += 1
        if self.seen % RENEW_STEPS == 0 or self.seen <= RENEW_STEPS:
            self._renew()

    def _renew(self) -> None:
        """Coordinate descent from the last solution; no coefficient falls below zero."""
        solution = self._solution.tolist()
        normal = self._normal.tolist()
        target = self._target.tolist()
        for _ in range(SWEEPS):
            for index, line in enumerate(normal):
                rest = sum(a * b for a, b in zip(line, solution, strict=True)) - line[index] * solution[index]
                solution[index] = max(0.0, (target[index] - rest) / (line[index] + 1e-9))
        self._solution = np.asarray(solution)
        self._seconds = (self._solution / self._scale).tolist()

    def seconds(self, work: StepWork) -> float:
        """See StepTimes."""
        return sum(a * b for a, b in zip(self._seconds, features(work), strict=True))

    def copy_seconds(self, pages: int) -> float:
        """Seconds that copying so many pages adds to steps."""
        return self._seconds[-1] * pages
