"""What becomes of the priority of those who wait, as long as they wait."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from andes_jax.prediction.lengths import LengthHistory
from andes_jax.scheduling.policies import Moment
from andes_jax.scheduling.scheduler import Scheduler


class _Standing(NamedTuple):
    same: tuple[float, ...]  # what else the terms depend on; where it differs, something has happened
    now: float
    tier: float
    waited: float
    priority: float


class WaitingPriorities:
    """Remembers where each request that waits under `three_tier` stood, and compares."""

    def __init__(self) -> None:
        self._before: dict[str, _Standing] = {}

    def check(self, scheduler: Scheduler, now: float) -> None:
        """Raise AssertionError when somebody who still waits stands worse than at the last call.

        With relegation a reader who has lost much falls behind others of its tier; its tier and its waiting term still
        only rise, and lift it in the end.
        """
        waiting, before = scheduler.roster.waiting, self._before
        self._before = {}
        if not waiting:
            return
        columns = scheduler.ledger.columns(waiting.rows, now)
        found = scheduler.policy.explain(columns, Moment(now, 0, 0.0, 0.0))
        for place, sequence in enumerate(waiting.members):
            # Another wait, or lengths learnt anew: something else has changed.
            same = (sequence.queued_s, sequence.generated, columns.to_compute[place], columns.remaining[place])
            standing = _Standing(same, now, *(found[name][place] for name in ("tier", "waited", "priority")))
            self._before[sequence.id] = standing
            earlier = before.get(sequence.id)
            if earlier is not None and earlier.same == same:
                self._compare(earlier, standing, relegates=scheduler.policy.weights.relegate > 0)

    @staticmethod
    def _compare(earlier: _Standing, standing: _Standing, *, relegates: bool) -> None:
        assert standing.tier <= earlier.tier
        if standing.now == earlier.now:
            assert np.isclose(standing.priority, earlier.priority)
            return
        assert standing.waited > earlier.waited
        assert standing.priority > earlier.priority or relegates


class Hopeful(LengthHistory):
    """Thinks that every reply is about to end, so that much is begun at once."""

    def remaining(self, predicted, generated, limit):
        return np.ones_like(generated)
