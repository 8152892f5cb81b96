"""First come, first served, whatever the tier."""

from __future__ import annotations

import numpy as np

from andes_jax.scheduling.priority import Columns, best_first
from andes_jax.scheduling.sequence import Sequence


class FirstComeFirstServed:
    """Ranks by arrival; a newcomer takes nothing from those who run."""

    name = "fcfs"

    def order(self, columns: Columns, now: float, limit: int | None = None) -> np.ndarray:
        return best_first(-columns.order, columns.order, limit)

    def restless(self, waiting_per_tier: list[int], running_per_tier: list[int]) -> bool:
        return False

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        return False

    def displaces(self, waiting: Sequence, running: Sequence, now: float) -> bool:
        return False

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        return True

    def explain(self, columns: Columns, now: float) -> dict[str, np.ndarray]:
        return {"arrival": columns.order}
