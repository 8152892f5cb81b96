"""Length predictors that look at the truth, which only a simulation has: exact, or off by as much as one likes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from andes_jax.failure import UsageError
from andes_jax.prediction.lengths import LengthHistory, LengthPredictor
from andes_jax.request import Request
from andes_jax.workload.arrival import Arrival

_STREAM = 100  # of random numbers; those of workloads are others


class Oracle(LengthHistory):
    """Predicts reply lengths from the truth times exp(N(0, noise)); 0 is exact. A request's seed is its place."""

    def __init__(self, lengths: Sequence[int], noise: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        errors = np.random.default_rng([seed, _STREAM]).normal(0.0, 1.0, size=len(lengths))
        self._predicted = (np.array(lengths, np.float64) * np.exp(noise * errors)).tolist()

    def predict(self, request: Request) -> float | None:
        return self._predicted[request.sampling.seed]


def predictor_of(words: str, arrivals: Sequence[Arrival], seed: int) -> LengthPredictor:
    """The predictor called `none`, `oracle`, or a standard deviation of the log of the error. Raises UsageError."""
    noise = noise_of(words)
    if noise is None:
        return LengthHistory()
    return Oracle([arrival.output_tokens for arrival in arrivals], noise, seed)


def noise_of(words: str) -> float | None:
    """The noise of a prediction: None for `none`, 0 for `oracle`, else the number. Raises UsageError."""
    kind = words.strip().lower()
    if kind == "none":
        return None
    if kind == "oracle":
        return 0.0
    try:
        noise = float(kind)
    except ValueError:
        noise = math.nan
    if not 0 <= noise <= 10:
        raise UsageError(f"prediction {words!r}: give none, oracle, or the log-noise of a prediction, such as 0.6")
    return noise
