"""How long a step takes, as a function of the work in it."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class StepWork(NamedTuple):
    """What a step computes, in the terms its time depends on."""

    decodes: int = 0  # sequences that get one token
    decode_context: int = 0  # positions they attend to, summed over them
    prefills: tuple[tuple[int, int], ...] = ()  # (tokens, positions before them) of every other slice
    copied_pages: int = 0  # between device and host, both ways together


class StepTimes(Protocol):
    """A model of step times."""

    def seconds(self, work: StepWork) -> float:
        """Seconds the step takes."""
        ...


class StepTimeModel(StepTimes, Protocol):
    """Step times as a scheduler uses them: known, or learnt while serving."""

    @property
    def ready(self) -> bool:
        """Whether predictions may steer."""
        ...

    def observe(self, work: StepWork, seconds: float) -> None:
        """A step with this work took so long."""
        ...

    def copy_seconds(self, pages: int) -> float:
        """Seconds that copying so many pages between device and host adds to steps."""
        ...
