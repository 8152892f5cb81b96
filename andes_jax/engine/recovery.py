"""What happens after a step has failed: everything is computed again, and the request at fault is found and ended."""

from __future__ import annotations

import logging

from andes_jax.engine.culprit import CulpritSearch
from andes_jax.scheduling.plan import Runner
from andes_jax.scheduling.scheduler import Scheduler

logger = logging.getLogger(__name__)

BARREN_SEARCHES = 3  # searches in a row that may end without a culprit while no request is completed


class EngineFailed(Exception):
    """The engine cannot go on; the message is fit for callers."""


class Recovery:
    """Resets runner and scheduler, and runs groups of suspects alone until the culprit fails alone.

    A group has passed when each member got two tokens further than at the failure (a step ahead may have been the one
    that failed) or has ended.
    """

    def __init__(self, scheduler: Scheduler, runner: Runner) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._search: CulpritSearch | None = None
        self._targets: dict[str, int] = {}  # request id -> tokens to be generated for it to pass
        self._failures_in_a_row = 0
        self._most_failures = 3 * (scheduler.limits.max_sequences.bit_length() + 2)
        self._barren = 0

    @property
    def searching(self) -> bool:
        """Whether only suspects run."""
        return self._search is not None

    def worked(self) -> None:
        """A step was completed."""
        self._failures_in_a_row = 0

    def completed(self) -> None:
        """A request came to its own end."""
        self._barren = 0

    def failed(self, error: Exception, now: float) -> str | None:
        """A step raised: start over. Returns the request to blame, once it is certain.

        Raises EngineFailed when the runner cannot be reset or failures do not end.
        """
        suspects = self._scheduler.in_flight()
        self._failures_in_a_row += 1
        if self._failures_in_a_row > self._most_failures:
            raise EngineFailed(f"{self._failures_in_a_row} steps in a row have failed") from error
        try:
            self._runner.reset()
        except Exception as reset_error:
            raise EngineFailed("the device could not be reset after a failed step") from reset_error
        self._scheduler.restart(now)
        culprit = None
        if self._search is not None:
            culprit = self._search.failed()
        elif suspects:
            self._search = CulpritSearch(suspects)
            live = self._scheduler.roster.live
            self._targets = {request_id: live[request_id].generated + 2 for request_id in suspects}
        self._next(now)
        return culprit

    def trial_over(self) -> bool:
        """Whether the group on trial has passed; plan nothing then, and call `passed` once nothing is in flight."""
        if self._search is None:
            return False
        live = self._scheduler.roster.live
        for request_id in self._search.trial:
            sequence = live.get(request_id)
            if sequence is not None and sequence.generated < self._targets[request_id]:
                return False
        return True

    def passed(self, now: float) -> None:
        """Go on to the next group, or let all requests run again."""
        assert self._search is not None
        self._search.passed()
        self._next(now)

    def _next(self, now: float) -> None:
        search = self._search
        if search is None:
            return
        if not search.over:
            self._scheduler.restrict(frozenset(search.trial), now)
            return
        self._search = None
        self._scheduler.restrict(None, now)
        if search.culprit is not None:
            return
        self._barren += 1
        logger.error("a step failed but none of its requests fails alone (%d times now)", self._barren)
        if self._barren >= BARREN_SEARCHES:
            raise EngineFailed("steps fail again and again though no single request is at fault")
