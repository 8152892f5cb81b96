"""What became of each request of a run, simulated or measured, and the figures of a run made from that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from andes_jax.request import FinishReason, QoeTarget
from andes_jax.scheduling.qoe import v1, v2
from andes_jax.workload.arrival import Arrival

UNFINISHED = "unfinished"
"""The finish of a request that still ran when its run was cut short; it says nothing of the server."""

PERFECT = 0.99  # a QoE from here on counts as perfect, as in the Andes paper
GOOD = 0.9  # a QoE from here on counts for goodput

_FINISHED = (FinishReason.STOP, FinishReason.LENGTH)
_NOT_SERVED = (FinishReason.FAILED, FinishReason.REFUSED)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One request and what its reader got. Times are in seconds from its arrival."""

    arrival: Arrival
    token_times_s: np.ndarray  # [tokens] when each output token reached the reader, ascending
    finish: str  # a FinishReason, or UNFINISHED
    waited_s: float | None = None  # to the first step that worked on it; None: unknown, or it never ran
    preemptions: int = 0  # times it lost its place to another

    @cached_property
    def qoe(self) -> float | None:
        """QoE v2 in [0, 1]; None where there is nothing to score (see `_score`)."""
        return self._score(v2)

    @cached_property
    def qoe_v1(self) -> float | None:
        """QoE v1 in [0, 1]; None where there is nothing to score."""
        return self._score(v1)

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token; None without one."""
        return float(self.token_times_s[0]) if len(self.token_times_s) else None

    @property
    def latency_s(self) -> float | None:
        """Time to the last token; None without one."""
        return float(self.token_times_s[-1]) if len(self.token_times_s) else None

    @property
    def tpot_s(self) -> float | None:
        """Time per token after the first; None with fewer than two tokens."""
        tokens = len(self.token_times_s)
        return float(self.token_times_s[-1] - self.token_times_s[0]) / (tokens - 1) if tokens > 1 else None

    @property
    def finished(self) -> bool:
        """Whether the reply came to its own end."""
        return self.finish in _FINISHED

    @property
    def interrupted(self) -> bool:
        """Whether its reader left before the first token."""
        return self.finish == FinishReason.CANCELLED and not len(self.token_times_s)

    def _score(self, measure: Callable[[np.ndarray, QoeTarget], float]) -> float | None:
        """A reader who left is scored by what came before; one who got no whole reply through the server's fault is 0.

        None: nobody reads along, the reader left before the first token, or the run was cut short.
        """
        target = self.arrival.qoe
        if target is None or self.interrupted or self.finish == UNFINISHED:
            return None
        if self.finish in _NOT_SERVED:
            # Also after some tokens: else a server that breaks replies off would score better than one that ends them.
            return 0.0
        return measure(self.token_times_s, target)


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of many requests. Times are in seconds; None where no request has what the figure is of.

    Every request is in exactly one of finished, failed, refused, interrupted, cancelled and unfinished.
    """

    requests: int
    finished: int
    failed: int
    refused: int
    interrupted: int  # the reader left before the first token
    cancelled: int  # the reader left later
    unfinished: int
    qoe_mean: float | None  # QoE is v2; only of requests that have one
    qoe_p10: float | None  # a tenth of them have less
    perfect: float | None  # share of them with at least PERFECT
    qoe_v1_mean: float | None
    ttft_p50: float | None  # of all requests that got a token
    ttft_p90: float | None
    ttft_p99: float | None
    latency_mean: float | None  # to the last token, of finished requests
    latency_p99: float | None
    itl_p50: float | None  # between two tokens of a request, of all such pairs; 0 for tokens that came together
    itl_p99: float | None
    tpot_mean: float | None  # of finished requests
    waited_p99: float | None
    tokens_per_s: float  # output tokens of all requests
    requests_per_s: float  # finished requests
    goodput: float | None  # requests with a QoE of at least GOOD, per second
    preemptions: float  # mean over all requests


def summarise(outcomes: Iterable[Outcome], duration_s: float) -> dict[str, Summary]:
    """Figures of a run that took `duration_s` seconds: for "all", and for each tier that occurs, by its name.

    Raises:
        ValueError: `duration_s` is not above 0.
    """
    if not duration_s > 0:
        raise ValueError(f"a run takes more than {duration_s} seconds")
    every = list(outcomes)
    tiers = sorted({each.arrival.tier for each in every})
    groups = {tier.name.lower(): [each for each in every if each.arrival.tier is tier] for tier in tiers}
    return {name: _summary(group, duration_s) for name, group in {"all": every, **groups}.items()}


def _summary(outcomes: Sequence[Outcome], duration_s: float) -> Summary:
    scores = _present(each.qoe for each in outcomes)
    ttfts = _present(each.ttft_s for each in outcomes)
    finished = [each for each in outcomes if each.finished]
    latencies = _present(each.latency_s for each in finished)
    gaps = np.concatenate([np.zeros(0), *(np.diff(each.token_times_s) for each in outcomes)])
    interrupted = sum(each.interrupted for each in outcomes)
    return Summary(
        requests=len(outcomes),
        finished=len(finished),
        failed=_count(outcomes, FinishReason.FAILED),
        refused=_count(outcomes, FinishReason.REFUSED),
        interrupted=interrupted,
        cancelled=_count(outcomes, FinishReason.CANCELLED) - interrupted,
        unfinished=_count(outcomes, UNFINISHED),
        qoe_mean=_mean(scores),
        qoe_p10=_percentile(scores, 10),
        perfect=_mean(scores >= PERFECT),
        qoe_v1_mean=_mean(_present(each.qoe_v1 for each in outcomes)),
        ttft_p50=_percentile(ttfts, 50),
        ttft_p90=_percentile(ttfts, 90),
        ttft_p99=_percentile(ttfts, 99),
        latency_mean=_mean(latencies),
        latency_p99=_percentile(latencies, 99),
        itl_p50=_percentile(gaps, 50),
        itl_p99=_percentile(gaps, 99),
        tpot_mean=_mean(_present(each.tpot_s for each in finished)),
        waited_p99=_percentile(_present(each.waited_s for each in outcomes), 99),
        tokens_per_s=sum(len(each.token_times_s) for each in outcomes) / duration_s,
        requests_per_s=len(finished) / duration_s,
        goodput=float(np.sum(scores >= GOOD)) / duration_s if len(scores) else None,
        preemptions=float(np.mean([each.preemptions for each in outcomes])) if outcomes else 0.0,
    )


def _count(outcomes: Sequence[Outcome], finish: str) -> int:
    return sum(each.finish == finish for each in outcomes)


def _present(values: Iterable[float | None]) -> np.ndarray:
    return np.array([value for value in values if value is not None], np.float64)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _percentile(values: np.ndarray, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None
