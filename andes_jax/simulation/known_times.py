"""Step times as a scheduler in a simulation knows them: the ones that are simulated."""

from __future__ import annotations

from andes_jax.scheduling.step_time import StepTimes, StepWork


class KnownTimes:
    """A StepTimeModel that has nothing to learn. A machine's own would come close after a few hundred steps."""

    def __init__(self, times: StepTimes, copy_page_s: float) -> None:
        self._times = times
        self._copy_page_s = copy_page_s

    @property
    def ready(self) -> bool:
        return True

    def observe(self, work: StepWork, seconds: float) -> None:
        """Nothing to learn."""

    def seconds(self, work: StepWork) -> float:
        return self._times.seconds(work)

    def copy_seconds(self, pages: int) -> float:
        return self._copy_page_s * pages
