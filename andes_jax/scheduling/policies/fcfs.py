"""First come, first served, whatever the tier."""

from __future__ import annotations

import math

import numpy as np

from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.policies.base import NOBODY, Moment
from andes_jax.scheduling.priority import best_first
from andes_jax.scheduling.sequence import Sequence


class FirstComeFirstServed:
    """Ranks by arrival; a newcomer takes nothing from those who run."""

    name = "fcfs"
    look_s = math.inf
    preempts = False
    spends = False

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        return best_first(-waiting.order, waiting.order, limit)

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        return np.argsort(running.order)

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        return False

    def victims(self, waiting: Columns, running: Columns, moment: Moment) -> np.ndarray:
        return NOBODY

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        return True

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        return {"arrival": columns.order}
