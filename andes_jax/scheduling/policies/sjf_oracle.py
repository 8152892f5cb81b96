"""The least remaining work first, by the predictor that it is given: a yardstick for simulations with true lengths."""

from __future__ import annotations

import numpy as np

from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.policies.base import Moment, TierBlind
from andes_jax.scheduling.priority import best_first, work_of


class ShortestJobFirst(TierBlind):
    """Every tier alike, and nobody who runs is disturbed."""

    name = "sjf_oracle"

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        return best_first(-work_of(waiting), waiting.order, limit)

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        return np.lexsort((running.order, running.remaining))

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        return {"remaining": columns.remaining}
