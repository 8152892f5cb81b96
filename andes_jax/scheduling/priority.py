"""The priority formula over columns of sequences.

priority = alpha * interactivity + beta * waited / allowed wait + gamma * predicted resource
with interactivity and resource in [0, 1] (cheaper work scores higher) and the waiting term without upper bound.

Interactivity is what serving the request now is worth for what it costs, squeezed into [0, 1]:

    worth / (worth + (cost / TYPICAL_COST) ** work_power),  worth = need * (span / (span + 2 * late)) ** relegate
    cost = work * (1 + mean context / slot_tokens),         slot_tokens = tokens of the cache / slots

need rises from LEAST_NEED to 1 as the reader's slack falls from the horizon to nothing. A reply whose reading takes
`span` seconds and that comes `late` has a quality of span / (span + 2 * late) (QoE v2, see qoe.py), whose slope is what
each further second costs: those long late have little left to lose, and go after those who still have everything.
A reply takes up a slot and, for as long, its context's share of the cache: the machine has so much of both, and both
shares are what it costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from andes_jax.request import Tier
from andes_jax.scheduling.ledger import Columns

PREFILL_WORK = 0.1  # a prompt token is computed beside many others, so it costs about a tenth of one drawn alone
TYPICAL_COST = 64.0  # tokens; the interactivity of one with such a cost and full need is 1/2
LEAST_UNIT = 1e-6  # of what a term is measured in: less would be infinitely many of it
LEAST_NEED = 0.02  # of a reader far ahead, and where nobody reads along


@dataclass(frozen=True, slots=True)
class Weights:
    """The formula's coefficients, and what its terms are measured in. Raises ValueError for those without a meaning."""

    alpha: float = 0.6  # interactivity
    beta: float = 0.3  # waiting
    gamma: float = 0.1  # predicted resource
    allowed_wait_s: tuple[float, float, float] = (600.0, 600.0, 600.0)  # per tier: what one unit of waiting is
    lift_s: float = 60.0  # each such wait without service ranks a request one tier higher, so nothing starves
    horizon_s: float = 4.0  # a reader with more slack than this does not need anything yet
    ahead_s: float = 20.0  # a running reader with more slack may yield to an equal
    due_s: float = 1.5  # whose next token is due within this
    work_power: float = 0.3  # how much what costs little is preferred: 1 is by gain for work, 0 not at all
    relegate: float = 4.0  # how much those who are late already are put off: 2 is by what is left to lose, 0 not at all
    worst_first: bool = False  # rank by need alone, which raises the worst quality rather than the mean

    def __post_init__(self) -> None:
        for name in ("lift_s", "horizon_s", "work_power"):
            if not LEAST_UNIT <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number above 0, got {getattr(self, name):g}")
        for name in ("alpha", "beta", "gamma", "ahead_s", "due_s", "relegate"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or a number above it, got {getattr(self, name):g}")
        if not all(0 < wait < math.inf for wait in self.allowed_wait_s):
            raise ValueError(f"allowed_wait_s must be numbers above 0, got {self.allowed_wait_s}")


class Terms(NamedTuple):
    """The formula's terms, weighted, each float64 [n]."""

    interactivity: np.ndarray
    waited: np.ndarray
    resource: np.ndarray

    @property
    def priority(self) -> np.ndarray:
        """Their sum; higher goes first."""
        return self.interactivity + self.waited + self.resource


def work_of(columns: Columns) -> np.ndarray:
    """Tokens of work left [n]: those to draw, and the prompt's at what they cost beside others."""
    return columns.remaining + PREFILL_WORK * columns.to_compute


def cost_of(columns: Columns, slot_tokens: float) -> np.ndarray:
    """What that work costs [n]: a share of the slots and, by its mean context, of the cache, as long as it lasts."""
    return work_of(columns) * (1.0 + (columns.context + columns.remaining / 2) / slot_tokens)


def need_of(slack_s: np.ndarray, horizon_s: float) -> np.ndarray:
    """How badly each reader needs the next token [n], in (0, 1]."""
    return np.clip(1.0 - slack_s / horizon_s, LEAST_NEED, 1.0)


def _left_to_lose(columns: Columns) -> np.ndarray:
    """The quality that is still possible [n], in (0, 1]; 1 where nobody reads along."""
    reads = columns.pace_s > 0
    span = np.where(reads, (columns.generated + columns.remaining) * columns.pace_s, 1.0)
    late = np.where(reads, np.maximum(-columns.slack_s, 0.0), 0.0)
    return span / (span + 2 * late)


def terms(columns: Columns, now: float, weights: Weights, max_model_len: int, slot_tokens: float = math.inf) -> Terms:
    """The formula's terms for every entry; `slot_tokens` as Moment has it."""
    cost = cost_of(columns, slot_tokens)
    if weights.worst_first:
        interactivity = 1.0 / (1.0 + np.exp(np.clip(columns.slack_s / weights.horizon_s, -50.0, 50.0)))
    else:
        worth = need_of(columns.slack_s, weights.horizon_s) * _left_to_lose(columns) ** weights.relegate
        interactivity = worth / (worth + (cost / TYPICAL_COST) ** weights.work_power)
    waited = np.maximum(now - columns.queued_s, 0.0) / np.asarray(weights.allowed_wait_s)[columns.tier]
    resource = 1.0 - np.minimum(cost / max_model_len, 1.0)
    return Terms(weights.alpha * interactivity, weights.beta * waited, weights.gamma * resource)


def best_first(scores: np.ndarray, order: np.ndarray, limit: int | None = None) -> np.ndarray:
    """Indices of the `limit` highest scores [n], best first; equal scores by arrival number."""
    count = len(scores)
    if limit is None or limit >= count:
        return np.lexsort((order, -scores))
    threshold = -np.partition(-scores, limit - 1)[limit - 1]
    chosen = np.flatnonzero(scores >= threshold)
    return chosen[np.lexsort((order[chosen], -scores[chosen]))][:limit]


def lifted_tier(tier: int, waited_s: float, weights: Weights) -> int:
    """The tier a request ranks in after waiting so long without service."""
    return max(tier - int(max(waited_s, 0.0) / weights.lift_s), Tier.REALTIME)
