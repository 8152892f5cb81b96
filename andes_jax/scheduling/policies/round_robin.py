"""Turns: whoever waited longest goes next, and who has had its turn gives up its place to who waits."""

from __future__ import annotations

import numpy as np

from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.policies.base import Moment, TierBlind
from andes_jax.scheduling.priority import best_first

TURN_S = 2.0


class RoundRobin(TierBlind):
    """Every tier alike; a turn lasts `turn_s` seconds at least."""

    name = "round_robin"
    preempts = True

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self.look_s = turn_s / 4

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        return best_first(-waiting.queued_s, waiting.order, limit)

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        return np.lexsort((running.order, -running.held_s))

    def victims(self, waiting: Columns, running: Columns, moment: Moment) -> np.ndarray:
        ended = np.flatnonzero(moment.now - running.held_s >= self._turn_s)
        return ended[np.lexsort((running.order[ended], running.held_s[ended]))]

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        return {"waited_s": np.maximum(moment.now - columns.queued_s, 0.0)}
