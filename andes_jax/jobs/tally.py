"""How far a job is, for whoever shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Counts of one run. Whoever changes it calls `changed` afterwards."""

    total: int | None = None  # rows the job will have; None: not known yet
    done: int = 0  # rows that are finished, errors and earlier runs' included
    resumed: int = 0  # rows finished by earlier runs
    errors: int = 0  # rows that hold an error
    calls: int = 0  # calls answered in this run
    prompt_tokens: int = 0  # of those calls
    completion_tokens: int = 0
    trouble: str | None = None  # what keeps the job waiting at the moment
    on_change: Callable[[Tally], None] = lambda tally: None
    clock: Callable[[], float] = time.monotonic
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """The work starts now: what came before, such as loading a model, says nothing of its pace."""
        self._began_s = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the work began."""
        return self.clock() - self._began_s

    @property
    def tokens_per_s(self) -> float:
        """Tokens of prompts and replies in this run, per second of it."""
        return (self.prompt_tokens + self.completion_tokens) / max(self.elapsed_s, 1e-9)

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest will take at the pace of this run; None: nobody can tell."""
        fresh = self.done - self.resumed
        if self.total is None or fresh <= 0:
            return None
        return (self.total - self.done) * self.elapsed_s / fresh

    def called(self, usage: dict[str, Any]) -> None:
        """A call was answered, with OpenAI's usage object."""
        self.calls += 1
        self.prompt_tokens += usage.get("prompt_tokens") or 0
        self.completion_tokens += usage.get("completion_tokens") or 0
        self.on_change(self)

    def finished(self, *, error: bool, resumed: bool = False) -> None:
        """A row is finished."""
        self.done += 1
        self.errors += error
        self.resumed += resumed
        self.on_change(self)

    def waits_for(self, trouble: str | None) -> None:
        """Something keeps the job waiting, or no longer does."""
        if trouble != self.trouble:
            self.trouble = trouble
            self.on_change(self)

    def as_json(self) -> dict[str, Any]:
        """For programs; times are in seconds."""
        left_s = self.left_s
        return {
            "total": self.total,
            "done": self.done,
            "resumed": self.resumed,
            "errors": self.errors,
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "tokens_per_s": round(self.tokens_per_s, 1),
            "elapsed_s": round(self.elapsed_s, 1),
            "left_s": None if left_s is None else round(left_s, 1),
            "trouble": self.trouble,
        }
