"""The least remaining work first, by the predictor that it is given: a yardstick for simulations with true lengths."""

from __future__ import annotations

import math

import numpy as np

from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.policies.base import NOBODY, Moment
from andes_jax.scheduling.priority import best_first, work_of
from andes_jax.scheduling.sequence import Sequence


class ShortestJobFirst:
    """Every tier alike, and nobody who runs is disturbed."""

    name = "sjf_oracle"
    look_s = math.inf
    preempts = False
    spends = False

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        return best_first(-work_of(waiting), waiting.order, limit)

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        return np.lexsort((running.order, running.remaining))

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        return False

    def victims(self, waiting: Columns, running: Columns, moment: Moment) -> np.ndarray:
        return NOBODY

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        return True

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        return {"remaining": columns.remaining}
