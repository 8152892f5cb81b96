"""How many tokens a reply will still have, as far as anybody can know."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from andes_jax.request import Request

OVERDUE_SHARE = 0.3  # a reply that outran its prediction is expected to go on for this part of its length,
OVERDUE_TOKENS = 10.0  # and this many tokens more
LEAST = 5.0  # tokens; nothing is ever expected to end at once


class LengthPredictor(Protocol):
    """Predicts at arrival, and learns from what has finished."""

    def predict(self, request: Request) -> float | None:
        """Tokens the whole reply will have; None where there is nothing to go by but experience."""
        ...

    def remaining(self, predicted: np.ndarray, generated: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """Tokens still to come [n] float64, at least 1: of replies with these predictions [n] (NaN: none), so many
        tokens so far [n] and at most `limit` [n] in all."""
        ...

    def finished(self, request: Request, generated: int) -> None:
        """A reply came to its own end after so many tokens."""
        ...


class LengthHistory:
    """Foresees nothing of a request by itself: what is left of a reply is the mean over those that got as far.

    Starts from a few made-up replies of geometric lengths, and forgets by halving its counts now and then.
    """

    BUCKET = 8  # tokens
    BUCKETS = 1024  # longer replies count as the longest
    PRIOR_MEAN = 256.0  # tokens
    PRIOR_WEIGHT = 8.0  # replies
    MEMORY = 8192  # replies, after which the counts are halved
    STALE_AFTER = 16  # finished replies between two renewals of the table

    def __init__(self) -> None:
        ends = (np.arange(self.BUCKETS) + 0.5) * self.BUCKET
        self._ends = ends
        weights = np.exp(-ends / self.PRIOR_MEAN)
        self._counts = weights * (self.PRIOR_WEIGHT / weights.sum())
        self._weight = self.PRIOR_WEIGHT
        self._unseen = 0
        self._residual = self._residuals()

    def predict(self, request: Request) -> float | None:
        return None

    def remaining(self, predicted: np.ndarray, generated: np.ndarray, limit: np.ndarray) -> np.ndarray:
        left = np.where(np.isnan(predicted), self.residual(generated), residual_of(predicted, generated))
        return np.maximum(np.minimum(left, limit - generated), 1.0)

    def residual(self, generated: np.ndarray) -> np.ndarray:
        """Mean tokens [n] still to come for replies that have so many [n]."""
        bucket = np.minimum((generated / self.BUCKET).astype(np.int64), self.BUCKETS - 1)
        return self._residual[bucket]

    def finished(self, request: Request, generated: int) -> None:
        self._counts[min(generated // self.BUCKET, self.BUCKETS - 1)] += 1
        self._weight += 1
        self._unseen += 1
        if self._weight > self.MEMORY:
            self._counts *= 0.5
            self._weight *= 0.5
        if self._unseen >= self.STALE_AFTER:
            self._unseen = 0
            self._residual = self._residuals()

    def _residuals(self) -> np.ndarray:
        """Mean residual life at each bucket's start: E[length - start | length >= start]."""
        count = np.cumsum(self._counts[::-1])[::-1]
        total = np.cumsum((self._counts * self._ends)[::-1])[::-1]
        starts = np.arange(self.BUCKETS) * self.BUCKET
        return np.maximum(total / np.maximum(count, 1e-300) - starts, LEAST)


def residual_of(predicted: np.ndarray, generated: np.ndarray) -> np.ndarray:
    """Tokens left [n] of replies predicted to have `predicted` [n] in all; NaN where there is no prediction."""
    left = predicted - generated
    return np.where(left > 0, left, OVERDUE_SHARE * generated + OVERDUE_TOKENS)
