"""What a policy decides. The scheduler does the rest: budget, pages, slots, fairness bounds."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.sequence import Sequence


class Moment(NamedTuple):
    """When a decision is taken, and how the machine is then."""

    now: float
    step: int  # number of the step being planned
    used: float  # share of the pool's pages that sequences hold
    token_s: float  # seconds of a recent step, which is what a running reply waits for its next token
    slot_tokens: float = math.inf  # of the cache, for each slot: with longer contexts, pages run short before slots


class Policy(Protocol):
    """Pure over its arguments: the same sequences at the same moment are ranked the same.

    A look at those who wait is taken when somebody has come, somebody has left or gone on, or `look_s` has passed.
    """

    name: str
    look_s: float
    preempts: bool  # whether `victims` may ever name one
    skips: bool  # whether a step may leave batch replies out for somebody's first token
    spends: bool  # whether preemptions of one's equals are held to the share of time that may be spent on them

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        """Indices of waiting sequences, the first to be admitted first, a total order; the first `limit` of them, and
        perhaps some of tiers that have nobody among these."""
        ...

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        """Indices of running sequences; when pages run short the last loses its own first."""
        ...

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        """Whether a waiting request goes before `other`: a running one's prefill, or a waiting one that lacks pages."""
        ...

    def victims(self, waiting: Columns, running: Columns, moment: Moment) -> np.ndarray:
        """Indices of running sequences that may lose their place to the one waiting sequence [1], first to go first."""
        ...

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        """Whether a running request may take the pages of another that ranks below it. Where not, it waits for
        pages in place; the scheduler overrules this when otherwise nothing could advance."""
        ...

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        """The terms of the ranking by name, each [n]."""
        ...


NOBODY = np.zeros(0, dtype=np.int64)


class TierBlind:
    """What policies have in common that treat every tier alike, until they say otherwise: nobody who runs is disturbed,
    and nobody is let past another."""

    look_s = math.inf
    preempts = False
    skips = False
    spends = False

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        return False

    def victims(self, waiting: Columns, running: Columns, moment: Moment) -> np.ndarray:
        return NOBODY

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        return True
