"""Tiers first, then the priority formula within a tier; long waits lift a request across tiers."""

from __future__ import annotations

import numpy as np

from andes_jax.request import Tier
from andes_jax.scheduling.priority import Columns, Weights, best_first, lifted_tier, priority
from andes_jax.scheduling.sequence import Sequence


class ThreeTier:
    """Realtime before streaming before batch.

    More urgent tiers take slots and pages from less urgent ones; batch work never loses pages to batch work. A wait
    of `lift_s` without service ranks a request one tier higher, so that every request is admitted in the end.
    """

    name = "three_tier"

    def __init__(self, max_model_len: int, weights: Weights | None = None) -> None:
        self.weights = weights or Weights()
        self._max_model_len = max_model_len

    def order(self, columns: Columns, now: float, limit: int | None = None) -> np.ndarray:
        score = priority(columns, now, self.weights, self._max_model_len)
        tier = self._lifted(columns, now)
        tiers = np.unique(tier)
        if len(tiers) == 1:
            return best_first(score, columns.order, limit)
        ranked: list[np.ndarray] = []
        left = len(score) if limit is None else limit
        for value in tiers:
            rows = np.flatnonzero(tier == value)
            chosen = rows[best_first(score[rows], columns.order[rows], left)]
            ranked.append(chosen)
            left -= len(chosen)
            if left <= 0:
                break
        return np.concatenate(ranked)

    def _lifted(self, columns: Columns, now: float) -> np.ndarray:
        waited = np.maximum(now - columns.queued_s, 0.0)
        return np.maximum(columns.tier - (waited / self.weights.lift_s).astype(np.int64), int(Tier.REALTIME))

    def restless(self, waiting_per_tier: list[int], running_per_tier: list[int]) -> bool:
        realtime, streaming, _ = waiting_per_tier
        _, streams, batches = running_per_tier
        return bool((realtime and (streams or batches)) or (streaming and batches))

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        mine = lifted_tier(waiting.tier, now - waiting.queued_s, self.weights)
        theirs = other.tier
        if other.slot is None:
            theirs = Tier(lifted_tier(theirs, now - other.queued_s, self.weights))
        return mine < theirs

    def displaces(self, waiting: Sequence, running: Sequence, now: float) -> bool:
        return waiting.tier < running.tier

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        return not (needy.tier is Tier.BATCH and running.tier is Tier.BATCH)

    def explain(self, columns: Columns, now: float) -> dict[str, np.ndarray]:
        weights = self.weights
        return {
            "tier": self._lifted(columns, now),
            "interactivity": weights.alpha * np.asarray(weights.interactivity)[columns.tier],
            "waited": weights.beta
            * np.maximum(now - columns.arrived_s, 0.0)
            / np.asarray(weights.allowed_wait_s)[columns.tier],
            "resource": weights.gamma * (1.0 - np.minimum(columns.work / self._max_model_len, 1.0)),
            "priority": priority(columns, now, weights, self._max_model_len),
        }
