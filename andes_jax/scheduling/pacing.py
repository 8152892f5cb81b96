"""How many prompt tokens a step may hold so that no reader falls behind because of them."""

from __future__ import annotations

import numpy as np

from andes_jax.request import Tier
from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.step_time import StepTimeModel, StepWork

LEAST_TOKENS = 64  # a step always takes so many, or no prompt would ever be read on a slow machine
AIM_SHARE = 0.05  # of the aim for a first token: what a step with batch prompts may last, as somebody may come any time


class ChunkPacer:
    """Turns readers' slack into tokens, by the learnt step times."""

    def __init__(self, times: StepTimeModel, limits: SchedulerLimits) -> None:
        self._times = times
        self._limits = limits

    def allowance_s(self, running: Columns, in_flight_s: float) -> float:
        """Seconds the step may last; a step of `in_flight_s` comes before it. Infinite when nobody could fall behind.

        The step in flight brings every reader a token, so this one's are due a pace after those. A reader who is
        late already must at least not be later afterwards.
        """
        reads = (running.tier == Tier.REALTIME) & (running.pace_s > 0)
        if not reads.any():
            return np.inf
        slack, pace = running.slack_s[reads], running.pace_s[reads]
        return float(np.maximum(slack + pace - in_flight_s, pace).min())

    def tokens(self, draft: Draft, allowance_s: float, before: int) -> int:
        """Prompt tokens, at positions from `before` on, with which the step so far lasts `allowance_s` at most."""
        room = self._limits.step_tokens - len(draft.slices)
        if allowance_s == np.inf or not self._times.ready or room <= LEAST_TOKENS:
            return room
        least, most = LEAST_TOKENS, room
        if self._seconds(draft, most, before) <= allowance_s:
            return most
        while most - least > 8:
            middle = (least + most) // 2
            if self._seconds(draft, middle, before) <= allowance_s:
                least = middle
            else:
                most = middle
        return least

    def batch_tokens(self, draft: Draft, tokens: int) -> int:
        """How many of these tokens may be batch prompts'."""
        return min(tokens, self.tokens(draft, AIM_SHARE * self._limits.realtime_aim_s, 0))

    def _seconds(self, draft: Draft, tokens: int, before: int) -> float:
        return self._times.seconds(StepWork(draft.decodes, draft.context, ((tokens, before),)))
