"""andes_jax.simulation.experiment"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from andes_jax.failure import UsageError
from andes_jax.request import Tier
from andes_jax.scheduling.policies import SIMULATED_NAMES
from andes_jax.simulation.contender import parse_contender
from andes_jax.simulation.experiment import Options, create_scheduler, simulate
from andes_jax.simulation.oracles import Oracle
from andes_jax.simulation.profiles import load_profile
from tests.simulations import READER, arrive

H200 = load_profile("h200:llama-3-8b", 20_000)


def crowd(count=60, gap=0.05):
    return [
        arrive(index * gap, 200 + 37 * index % 400, 20 + 53 * index % 300, tier=Tier.REALTIME, qoe=READER)
        for index in range(count)
    ]


@pytest.mark.parametrize("policy", SIMULATED_NAMES)
def test_every_request_is_served_whole(policy):
    arrivals = crowd()
    run = simulate(arrivals, H200, policy)
    assert [len(each.token_times_s) for each in run.outcomes] == [each.output_tokens for each in arrivals]
    assert all(np.all(np.diff(each.token_times_s) > 0) for each in run.outcomes)
    figures = run.figures
    assert figures.contender == policy and figures.summary["all"].finished == 60
    assert 0 < figures.busy <= 1 and 0 < figures.held <= 1
    assert figures.duration_s >= max(each.arrival.arrived_s + each.latency_s for each in run.outcomes) - 1e-9
    assert figures.offered_per_s == pytest.approx(60 / (59 * 0.05))


def test_runs_are_reproducible():
    one, other = (simulate(crowd(), H200, "three_tier", Options(predict="0.6"), seed=3).outcomes for _ in range(2))
    for first, second in zip(one, other, strict=True):
        assert np.array_equal(first.token_times_s, second.token_times_s)


@pytest.mark.parametrize("policy", [name for name in SIMULATED_NAMES if name != "sjf_oracle"])
def test_policies_do_not_know_how_long_replies_are(policy):
    """A reply that goes on longer changes nothing before that shows."""
    short, long = (
        simulate([replace(crowd()[0], output_tokens=tokens), *crowd()[1:20]], H200, policy).outcomes
        for tokens in (200, 260)
    )
    shows_s = short[0].latency_s
    for one, other in zip(short, long, strict=True):
        before = int(np.searchsorted(one.token_times_s, shows_s - one.arrival.arrived_s))
        assert np.array_equal(one.token_times_s[:before], other.token_times_s[:before])
    assert len(long[0].token_times_s) == 260


def test_sjf_is_an_oracle_whatever_is_predicted_and_others_as_asked():
    def predictor(policy, predict):
        options = Options(predict=predict)
        return create_scheduler(crowd(), H200, parse_contender(policy), options, 0).ledger.predictor

    assert isinstance(predictor("sjf_oracle", "none"), Oracle)
    assert isinstance(predictor("fcfs", "0.6"), Oracle) and not isinstance(predictor("fcfs", "none"), Oracle)


def test_a_request_may_ask_for_exactly_what_it_gets():
    finishes = {
        limit: {each.finish for each in simulate(crowd(5), H200, "fcfs", Options(reply_limit=limit)).outcomes}
        for limit in (None, 2048)
    }
    assert finishes == {None: {"length"}, 2048: {"stop"}}


def test_what_is_too_long_is_refused_and_counted():
    arrivals = [arrive(0.0, prompt=900, output=200, qoe=READER), arrive(0.0, qoe=READER), arrive(0.0, prompt=30_000)]
    figures = simulate(arrivals, H200, "fcfs", Options(max_model_len=1000)).figures
    assert figures.summary["all"].refused == 2 and figures.summary["all"].finished == 1
    assert figures.summary["all"].qoe_mean == pytest.approx(0.5)


def test_options_reach_the_scheduler():
    options = Options(max_sequences=3, max_model_len=777, host_kv_tokens=1600)
    scheduler = create_scheduler(crowd(), H200, parse_contender("three_tier:max_preempt=1"), options, 0)
    limits = scheduler.limits
    assert (limits.max_sequences, limits.max_model_len, limits.max_preempt) == (3, 777, 1)
    assert scheduler.stowage.host_pages.total == 100 and scheduler.pool.total == H200.pages


def test_nothing_cannot_be_simulated():
    with pytest.raises(UsageError, match="without requests"):
        simulate([], H200, "fcfs")
