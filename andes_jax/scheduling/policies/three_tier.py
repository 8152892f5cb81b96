"""Tiers first, then the priority formula within a tier; long waits lift a request across tiers."""

from __future__ import annotations

import numpy as np

from andes_jax.request import Tier
from andes_jax.scheduling.ledger import Columns
from andes_jax.scheduling.policies.base import NOBODY, Moment
from andes_jax.scheduling.priority import Terms, Weights, best_first, lifted_tier, terms
from andes_jax.scheduling.sequence import Sequence

SEEN = 4  # of a tier that has nobody among the first candidates, so many are looked at


class ThreeTier:
    """Realtime before streaming before batch.

    More urgent tiers take slots and pages from less urgent ones; batch work never loses pages to batch work. Among
    equals only a reader who is far ahead gives up its place, for one about to miss its first token. A wait of `lift_s`
    without service ranks a request one tier higher, so that every request is admitted in the end.
    """

    name = "three_tier"
    look_s = 0.1
    preempts = True
    skips = True
    spends = True

    def __init__(self, max_model_len: int, weights: Weights | None = None) -> None:
        self.weights = weights or Weights()
        self._max_model_len = max_model_len

    def admit_order(self, waiting: Columns, moment: Moment, limit: int | None = None) -> np.ndarray:
        score = self._terms(waiting, moment).priority
        order = self._by_tier(self._lifted(waiting, moment.now), score, waiting.order, limit)
        if len(order) == len(score):
            return order
        # Who waited long ranks above its tier and yet gets no more than its tier may have: others must be seen too.
        hidden = np.setdiff1d(waiting.tier, waiting.tier[order])
        rows = [np.flatnonzero(waiting.tier == tier) for tier in hidden]
        return np.concatenate([order, *(each[best_first(score[each], waiting.order[each], SEEN)] for each in rows)])

    def keep_order(self, running: Columns, moment: Moment) -> np.ndarray:
        found = self._terms(running, moment)  # who runs does not wait
        return self._by_tier(running.tier, found.interactivity + found.resource, running.order, None)

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        mine = lifted_tier(waiting.tier, now - waiting.queued_s, self.weights)
        theirs = int(other.tier)
        if other.slot is not None:
            # Of its own kind nobody goes before a begun prompt, which would hold its place for ever.
            return mine < theirs and waiting.tier is not other.tier
        theirs = lifted_tier(theirs, now - other.queued_s, self.weights)
        # What fits beside one that lacks pages may run, until that one has waited its tier's allowed wait.
        patient = now - other.queued_s < self.weights.allowed_wait_s[other.tier]
        return mine < theirs or (mine == theirs and patient)

    def victims(self, waiting: Columns, running: Columns, moment: Moment) -> np.ndarray:
        tier = waiting.tier[0]
        chosen = running.tier > tier
        if tier != Tier.BATCH and waiting.slack_s[0] < self.weights.due_s:
            chosen |= (running.tier == tier) & (running.slack_s > self.weights.ahead_s)
        if not chosen.any():
            return NOBODY
        rows = np.flatnonzero(chosen)
        return rows[np.lexsort((running.order[rows], -running.remaining[rows], -running.tier[rows]))]

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        return not (needy.tier is Tier.BATCH and running.tier is Tier.BATCH)

    def explain(self, columns: Columns, moment: Moment) -> dict[str, np.ndarray]:
        found = self._terms(columns, moment)
        return {
            "tier": self._lifted(columns, moment.now),
            **found._asdict(),
            "priority": found.priority,
            "slack_s": columns.slack_s,
            "remaining": columns.remaining,
        }

    def _terms(self, columns: Columns, moment: Moment) -> Terms:
        return terms(columns, moment.now, self.weights, self._max_model_len, moment.slot_tokens)

    def _lifted(self, columns: Columns, now: float) -> np.ndarray:
        waited = np.maximum(now - columns.queued_s, 0.0)
        return np.maximum(columns.tier - (waited / self.weights.lift_s).astype(np.int64), int(Tier.REALTIME))

    @staticmethod
    def _by_tier(tier: np.ndarray, score: np.ndarray, order: np.ndarray, limit: int | None) -> np.ndarray:
        tiers = np.unique(tier)
        if len(tiers) == 1:
            return best_first(score, order, limit)
        ranked: list[np.ndarray] = []
        left = len(score) if limit is None else limit
        for value in tiers:
            rows = np.flatnonzero(tier == value)
            chosen = rows[best_first(score[rows], order[rows], left)]
            ranked.append(chosen)
            left -= len(chosen)
            if left <= 0:
                break
        return np.concatenate(ranked)
