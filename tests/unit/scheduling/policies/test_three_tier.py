from __future__ import annotations

import itertools
from dataclasses import replace
from math import inf

import pytest

from andes_jax.request import Tier
from andes_jax.scheduling.policies.three_tier import ThreeTier
from andes_jax.scheduling.priority import Weights
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request
from tests.unit.scheduling.parts import at, columns

REALTIME, STREAMING, BATCH = Tier
WEIGHTS = Weights(
    0.6, 0.3, 0.1, allowed_wait_s=(60.0, 60.0, 600.0), lift_s=60.0, horizon_s=4.0, work_power=1.0, relegate=0.0,
    ahead_s=8.0, due_s=1.5
)  # fmt: skip


def sequence(tier: Tier, queued_s: float = 0.0, *, runs: bool = False) -> Sequence:
    made = Sequence(make_request("a", [1], 1, tier=tier, arrived_s=queued_s), 1)
    made.slot = 0 if runs else None
    return made


def test_tiers_first_then_waiting_then_size():
    policy = ThreeTier(100, WEIGHTS)
    waited = columns(
        [BATCH, STREAMING, REALTIME, REALTIME, REALTIME],
        arrived_s=[0.0, 9.0, 9.9, 9.9, 1.0], queued_s=[0.0, 9.0, 9.9, 9.9, 1.0], remaining=[1, 1, 50, 5, 50],
    )  # fmt: skip
    assert policy.admit_order(waited, at(10.0)).tolist() == [3, 4, 2, 1, 0]
    for limit in range(1, 6):
        ranked = policy.admit_order(waited, at(10.0), limit).tolist()
        assert ranked[:limit] == [3, 4, 2, 1, 0][:limit]
        assert {waited.tier[row] for row in ranked} == set(Tier) and len(set(ranked)) == len(ranked)
    assert policy.keep_order(waited, at(10.0)).tolist() == [3, 2, 4, 1, 0], "who runs does not wait"


def test_within_a_tier_the_reader_who_needs_it_most_goes_first():
    policy = ThreeTier(100, WEIGHTS)
    readers = columns([STREAMING] * 4, slack_s=[inf, 3.0, -2.0, 1.0], remaining=50)
    assert policy.admit_order(readers, at(0.0)).tolist() == policy.keep_order(readers, at(0.0)).tolist() == [2, 3, 1, 0]


def test_batch_work_comes_first_in_the_end():
    policy = ThreeTier(100, WEIGHTS)
    ranks = []
    for now in (1.0, 61.0, 121.0, 4000.0):
        # realtime requests keep coming: each has waited up to a second, and its reader needs it now
        since = [0.0, *[now - wait / 10 for wait in range(1, 11)]]
        those = columns([BATCH, *[REALTIME] * 10], arrived_s=since, queued_s=since, remaining=[90, *[5] * 10],
                        slack_s=[inf, *[0.0] * 10])  # fmt: skip
        ranks.append(policy.admit_order(those, at(now)).tolist().index(0))
    assert ranks[0] == ranks[1] == 10
    assert ranks[3] == 0
    assert ranks == sorted(ranks, reverse=True)


def test_long_waits_lift_the_waiting_alone():
    policy = ThreeTier(100, replace(WEIGHTS, lift_s=10.0))
    those = columns([BATCH, STREAMING], queued_s=[0.0, 20.0], arrived_s=[0.0, 20.0])
    assert policy.admit_order(those, at(21.0)).tolist() == [0, 1]
    assert policy.keep_order(those, at(21.0)).tolist() == [1, 0]
    assert policy.explain(those, at(21.0))["tier"].tolist() == [0, 1]


@pytest.mark.parametrize(("waiting_tier", "running_tier"), list(itertools.product(Tier, Tier)))
def test_more_urgent_tiers_displace_less_urgent_ones(waiting_tier, running_tier):
    policy = ThreeTier(100, WEIGHTS)
    more_urgent = waiting_tier < running_tier
    for now in (0.0, 1e6):
        chosen = policy.victims(columns([waiting_tier]), columns([running_tier], slack_s=-5.0), at(now))
        assert chosen.tolist() == ([0] if more_urgent else []), "also after a long wait"
    assert policy.overtakes(sequence(waiting_tier), sequence(running_tier, runs=True), 0.0) == more_urgent
    assert policy.preempts and policy.spends


def test_the_least_urgent_with_most_to_come_go_first():
    running = columns([STREAMING, BATCH, BATCH, REALTIME, BATCH], remaining=[99, 5, 30, 99, 30], order=[5, 1, 2, 0, 3])
    assert ThreeTier(100, WEIGHTS).victims(columns([REALTIME]), running, at(0.0)).tolist() == [2, 4, 1, 0]


@pytest.mark.parametrize("tier", [REALTIME, STREAMING])
def test_only_a_reader_far_ahead_yields_to_an_equal_who_is_about_to_miss_its_token(tier):
    policy = ThreeTier(100, WEIGHTS)
    running = columns([tier] * 4, slack_s=[8.0, 8.1, 30.0, inf], remaining=[9, 10, 20, 30])
    for due_in_s, chosen in [(1.4, [3, 2, 1]), (-5.0, [3, 2, 1]), (1.5, []), (inf, [])]:
        assert policy.victims(columns([tier], slack_s=due_in_s), running, at(0.0)).tolist() == chosen
    nearer = ThreeTier(100, replace(WEIGHTS, ahead_s=29.0, due_s=9.0))
    assert nearer.victims(columns([tier], slack_s=8.9), running, at(0.0)).tolist() == [3, 2]


def test_batch_work_displaces_nobody():
    running = columns([BATCH] * 2, slack_s=[100.0, inf])
    assert ThreeTier(100, WEIGHTS).victims(columns([BATCH], slack_s=-5.0), running, at(0.0)).tolist() == []


def test_a_long_wait_overtakes_but_is_not_overtaken():
    policy = ThreeTier(100, replace(WEIGHTS, lift_s=10.0, allowed_wait_s=(5.0, 5.0, 20.0)))
    old, new = sequence(BATCH), sequence(REALTIME, 25.0)
    assert policy.overtakes(new, old, 19.0) and not policy.overtakes(new, old, 25.0)
    running = sequence(STREAMING, runs=True)
    assert policy.overtakes(old, running, 25.0) and not policy.overtakes(old, running, 5.0)


def test_what_fits_beside_an_equal_that_lacks_pages_may_run_for_a_while():
    policy = ThreeTier(100, WEIGHTS)
    blocked, small = sequence(STREAMING), sequence(STREAMING, 59.0)
    assert policy.overtakes(small, blocked, 59.9) and not policy.overtakes(small, blocked, 60.0)
    assert not policy.overtakes(sequence(BATCH), sequence(STREAMING), 1.0)
    assert not policy.overtakes(sequence(STREAMING), sequence(STREAMING, runs=True), 0.0), "prefills go on in order"


def test_batch_work_does_not_take_pages_from_batch_work():
    policy = ThreeTier(100, WEIGHTS)
    for needy, running in itertools.product(Tier, Tier):
        assert policy.takes_pages(sequence(needy), sequence(running)) == ((needy, running) != (BATCH, BATCH))


def test_the_terms_add_up_to_the_priority():
    those = columns([BATCH, REALTIME], arrived_s=[0.0, 9.0], slack_s=[inf, 0.5], remaining=[10, 20])
    terms = ThreeTier(100, WEIGHTS).explain(those, at(10.0))
    assert (terms["interactivity"] + terms["waited"] + terms["resource"]).tolist() == pytest.approx(terms["priority"])
    assert terms["tier"].tolist() == [2, 0] and terms["slack_s"].tolist() == [inf, 0.5]
    assert terms["remaining"].tolist() == [10, 20]
