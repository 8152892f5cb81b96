"""First come, first served, whatever the tier."""

from __future__ import annotations

import numpy as np

from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.policies.base import Moment, TierBlind
from andes_jax.scheduling.priority import best_first


class FirstComeFirstServed(TierBlind):
    """Ranks by arrival; a newcomer takes nothing from those who run."""

    name = "fcfs"

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        return best_first(-waiting.order, waiting.order, limit)

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        return np.argsort(running.order)

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        return {"arrival": columns.order}
