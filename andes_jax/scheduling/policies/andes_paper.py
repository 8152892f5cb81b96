"""The policy of the Andes paper (Liu et al., arXiv 2404.16283), as its authors' code has it, to compare with.

Over a horizon, gain = quality if served - quality if not, divided by the context's length. Every tenth step, when the
cache is 90 % full or tokens come slower than the fastest reader reads, the sequences with the highest gain per token
of context get the machine, those that run with a tenth more; else the ratio only sorts who waits.
"""

from __future__ import annotations

import numpy as np

from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.policies.base import NOBODY, Moment, TierBlind
from andes_jax.scheduling.priority import best_first

HORIZON_S = 10.0
STEPS = 10
FULL = 0.9
STICKINESS = 0.1
NO_READER_PACE_S = 0.2  # where nobody reads along, somebody at 5 tokens per second is imagined


class AndesPaper(TierBlind):
    """Every tier alike."""

    name = "andes_paper"
    look_s = 0.0
    preempts = True

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        return best_first(self._ratio(waiting, moment), waiting.order, limit)

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        return best_first(self._ratio(running, moment), running.order)

    def victims(self, waiting: Columns, running: Columns, moment: Moment) -> np.ndarray:
        if moment.step % STEPS or not self._pressed(running, moment):
            return NOBODY
        ratio = (1.0 + STICKINESS) * self._ratio(running, moment)
        worse = np.flatnonzero(ratio < self._ratio(waiting, moment)[0])
        return worse[np.lexsort((-running.order[worse], ratio[worse]))]

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        return {"gain_per_token": self._ratio(columns, moment)}

    @staticmethod
    def _pressed(running: Columns, moment: Moment) -> bool:
        paces = running.pace_s[running.pace_s > 0]
        return moment.used >= FULL or bool(len(paces) and moment.token_s > paces.min())

    @staticmethod
    def _ratio(columns: Columns, moment: Moment) -> np.ndarray:
        pace = np.where(columns.pace_s > 0, columns.pace_s, NO_READER_PACE_S)
        have = columns.generated
        expected = (moment.now - columns.arrived_s + HORIZON_S) / pace
        served = np.minimum(1.0, ((have + HORIZON_S / pace) / expected) ** 2)
        behind = np.maximum(expected - have, 0.0) / expected
        unserved = np.where(have == 0, columns.slack_s > HORIZON_S, 1.0 - behind**2)
        served = np.where((have > 0) & (columns.slack_s > 0), 1.0, served)
        return (served - unserved) / (columns.context + 1.0)
