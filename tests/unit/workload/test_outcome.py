"""Outcomes and summaries against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import UNFINISHED, Outcome, summarise

READER = QoeTarget(first_token_s=1.0, tokens_per_s=5.0)


def mk(*times: float, finish: str = "length", tier: Tier = Tier.REALTIME, reader=READER, **more) -> Outcome:
    arrival = Arrival(arrived_s=0.0, prompt_tokens=8, output_tokens=max(len(times), 1), tier=tier, qoe=reader)
    return Outcome(arrival, np.array(times, np.float64), finish, **more)


def test_times_of_one_request():
    outcome = mk(0.5, 0.7, 1.5)
    assert (outcome.ttft_s, outcome.latency_s, outcome.tpot_s) == (0.5, 1.5, pytest.approx(0.5))
    assert mk(2.0).tpot_s is None
    nothing = mk(finish="failed")
    assert (nothing.ttft_s, nothing.latency_s, nothing.tpot_s) == (None, None, None)


def test_a_reader_who_never_waits_is_perfectly_served():
    assert mk(0.9, 1.0, 1.1).qoe == 1.0
    assert mk(0.9, 1.0, 1.1).qoe_v1 == 1.0
    assert mk(3.0, 4.0, 5.0).qoe < 0.6


@pytest.mark.parametrize(
    ("outcome", "score"),
    [
        (mk(finish="failed"), 0.0),
        (mk(finish="refused"), 0.0),
        (mk(0.1, 0.2, finish="failed"), 0.0),  # broken off
        (mk(finish="cancelled"), None),  # an interruption
        (mk(0.1, 0.2, finish="cancelled"), 1.0),  # read that far
        (mk(0.1, 0.2, finish=UNFINISHED), None),
        (mk(0.1, 0.2, reader=None), None),
    ],
)
def test_who_is_scored(outcome, score):
    assert outcome.qoe == score and outcome.qoe_v1 == score


def test_every_request_is_counted_once():
    outcomes = [
        mk(0.1, 0.2),
        mk(0.1, finish="stop"),
        mk(finish="failed"),
        mk(finish="refused"),
        mk(finish="cancelled"),
        mk(0.3, finish="cancelled"),
        mk(0.3, finish=UNFINISHED),
    ]
    found = summarise(outcomes, 10.0)["all"]
    parts = (found.finished, found.failed, found.refused, found.interrupted, found.cancelled, found.unfinished)
    assert parts == (2, 1, 1, 1, 1, 1) and sum(parts) == found.requests


def test_summary_figures():
    outcomes = [
        mk(0.2, 0.4, 0.6, waited_s=0.1, preemptions=2),
        mk(0.4, 0.4, 1.0, waited_s=0.3),
        mk(finish="refused"),
    ]
    found = summarise(outcomes, 2.0)["all"]
    assert found.qoe_mean == pytest.approx(2 / 3) and found.perfect == pytest.approx(2 / 3)
    assert found.qoe_p10 == pytest.approx(0.2)  # between 0 and 1
    assert found.ttft_p50 == pytest.approx(0.3) and found.ttft_p99 == pytest.approx(0.398)
    assert found.latency_mean == pytest.approx(0.8)
    assert found.itl_p50 == pytest.approx(0.2) and found.itl_p99 == pytest.approx(0.588)  # of 0, 0.2, 0.2, 0.6
    assert found.tpot_mean == pytest.approx(0.25)
    assert found.waited_p99 == pytest.approx(0.298)
    assert (found.tokens_per_s, found.requests_per_s, found.goodput) == (3.0, 1.0, 1.0)
    assert found.preemptions == pytest.approx(2 / 3)


def test_tiers_apart_and_figures_that_nobody_has():
    found = summarise([mk(0.1, 0.2), mk(5.0, tier=Tier.BATCH, reader=None)], 1.0)
    assert list(found) == ["all", "realtime", "batch"]
    assert found["realtime"].ttft_p50 == 0.1 and found["all"].requests == 2
    batch = found["batch"]
    assert (batch.qoe_mean, batch.perfect, batch.goodput, batch.itl_p99, batch.waited_p99) == (None,) * 5


def test_no_requests_and_no_time():
    found = summarise([], 1.0)
    assert list(found) == ["all"] and found["all"].requests == 0 and found["all"].qoe_mean is None
    with pytest.raises(ValueError, match="seconds"):
        summarise([], 0.0)
