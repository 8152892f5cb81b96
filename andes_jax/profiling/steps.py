"""What the engine did in each step, as far as it explains how long tokens took."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from andes_jax.scheduling.scheduler import PlannedStep, Scheduler

KEPT = 1024  # steps


class StepNote(NamedTuple):
    """One step. Times are in seconds on the engine's clock."""

    began_s: float  # when the device turned to it
    ended_s: float  # when its tokens were known
    request_ids: frozenset[str]  # that had a part in it
    decodes: int  # replies that got a token
    prompt_tokens: int  # computed beside them
    copied_pages: int = 0  # between device and host

    @classmethod
    def of(cls, step: PlannedStep, ended_s: float, step_s: float) -> StepNote:
        """Of a step that took the device `step_s` seconds."""
        work = step.work
        ids = frozenset(sequence.id for sequence in step.sequences)
        prompt_tokens = sum(tokens for tokens, _ in work.prefills)
        return cls(ended_s - step_s, ended_s, ids, work.decodes, prompt_tokens, work.copied_pages)


StepListener = Callable[[StepNote], None]
"""Told of each step on the engine's thread, before its events; must not block or raise."""


def watch_steps(scheduler: Scheduler, listener: StepListener) -> None:
    """Tell the listener of every step from now on; it takes the place of the one before. Before the first step."""
    scheduler.on_step = lambda step, ended_s, step_s: listener(StepNote.of(step, ended_s, step_s))


class Gap(NamedTuple):
    """The time from one token of a request to the next, or from its arrival to its first."""

    working_s: float  # steps worked on it
    waiting_s: float  # none did
    longest: StepNote | None  # of the steps that worked on it


class StepHistory:
    """The last steps, oldest first."""

    def __init__(self) -> None:
        self._steps: deque[StepNote] = deque(maxlen=KEPT)

    def add(self, note: StepNote) -> None:
        """One more; steps come in the order in which they end."""
        self._steps.append(note)

    def gap(self, request_id: str, since_s: float, until_s: float) -> Gap:
        """How the time between two moments was spent on a request. Steps no longer known count as waiting."""
        working_s, longest = 0.0, None
        for note in self._since(since_s):
            if note.began_s >= until_s or request_id not in note.request_ids:
                continue
            working_s += max(min(note.ended_s, until_s) - max(note.began_s, since_s), 0.0)
            if longest is None or note.ended_s - note.began_s > longest.ended_s - longest.began_s:
                longest = note
        whole_s = max(until_s - since_s, 0.0)
        working_s = min(working_s, whole_s)
        return Gap(working_s, whole_s - working_s, longest)

    def _since(self, moment_s: float) -> Iterator[StepNote]:
        for note in reversed(self._steps):
            if note.ended_s <= moment_s:
                return
            yield note
