"""What policies rank by: columns of numbers over many sequences, and the priority formula over them.

priority = alpha * interactivity + beta * waited / allowed wait + gamma * predicted resource
with interactivity and resource in [0, 1] (cheaper work scores higher) and the waiting term without upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from andes_jax.request import Tier
from andes_jax.scheduling.sequence import Sequence


class Columns(NamedTuple):
    """One entry per sequence, all arrays [n]."""

    tier: np.ndarray  # int64
    arrived_s: np.ndarray  # float64
    queued_s: np.ndarray  # float64, when it last began to wait; now or later for running ones
    order: np.ndarray  # float64, arrival number
    work: np.ndarray  # float64, tokens still to compute at most


def work_of(sequence: Sequence) -> int:
    """Tokens the sequence may still have to compute."""
    return sequence.goal - sequence.computed


def columns_of(running: Iterable[Sequence], now: float) -> Columns:
    """Columns of running sequences, which wait for nothing."""
    rows = [(s.tier, s.request.arrived_s, now, s.order, work_of(s)) for s in running]
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return Columns(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], table[:, 3], table[:, 4])


def best_first(scores: np.ndarray, order: np.ndarray, limit: int | None = None) -> np.ndarray:
    """Indices of the `limit` highest scores [n], best first; equal scores by arrival number."""
    count = len(scores)
    if limit is None or limit >= count:
        return np.lexsort((order, -scores))
    threshold = -np.partition(-scores, limit - 1)[limit - 1]
    chosen = np.flatnonzero(scores >= threshold)
    return chosen[np.lexsort((order[chosen], -scores[chosen]))][:limit]


@dataclass(frozen=True, slots=True)
class Weights:
    """The formula's coefficients, and what waiting is measured in."""

    alpha: float = 0.6  # interactivity
    beta: float = 0.3  # waiting
    gamma: float = 0.1  # predicted resource
    interactivity: tuple[float, float, float] = (1.0, 0.5, 0.0)  # per tier, in [0, 1]
    allowed_wait_s: tuple[float, float, float] = (0.2, 0.3, 10.0)  # per tier: what one unit of waiting is
    lift_s: float = 60.0  # each such wait without service ranks a request one tier higher, so nothing starves


def priority(columns: Columns, now: float, weights: Weights, max_model_len: int) -> np.ndarray:
    """The formula's value for every entry, float64 [n]; higher goes first."""
    interactivity = np.asarray(weights.interactivity)[columns.tier]
    allowed = np.asarray(weights.allowed_wait_s)[columns.tier]
    waited = np.maximum(now - columns.arrived_s, 0.0) / allowed
    resource = 1.0 - np.minimum(columns.work / max_model_len, 1.0)
    return weights.alpha * interactivity + weights.beta * waited + weights.gamma * resource


def lifted_tier(tier: int, waited_s: float, weights: Weights) -> int:
    """The tier a request ranks in after waiting so long without service."""
    return max(tier - int(max(waited_s, 0.0) / weights.lift_s), Tier.REALTIME)
