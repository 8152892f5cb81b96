from __future__ import annotations

import itertools

import pytest

from andes_jax.request import Tier
from andes_jax.scheduling.policies.three_tier import ThreeTier
from andes_jax.scheduling.priority import Weights
from andes_jax.scheduling.queue import WaitingQueue
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request

REALTIME, STREAMING, BATCH = Tier


def waiting(*requests: tuple[Tier, float, int]) -> WaitingQueue:
    """(tier, arrived_s, prompt length) each."""
    queue = WaitingQueue()
    for order, (tier, arrived_s, length) in enumerate(requests):
        queue.add(Sequence(make_request(f"r{order}", range(length), 1, tier=tier, arrived_s=arrived_s), order))
    return queue


def test_tiers_first_then_waiting_then_size():
    policy = ThreeTier(100)
    queue = waiting((BATCH, 0.0, 1), (STREAMING, 9.0, 1), (REALTIME, 9.9, 50), (REALTIME, 9.9, 5), (REALTIME, 9.5, 90))
    assert policy.order(queue.columns, 10.0).tolist() == [4, 3, 2, 1, 0]
    for limit in range(1, 6):
        assert policy.order(queue.columns, 10.0, limit).tolist() == [4, 3, 2, 1, 0][:limit]


def test_batch_work_comes_first_in_the_end():
    policy = ThreeTier(100)
    ranks = []
    for now in (1.0, 61.0, 121.0, 4000.0):
        # realtime requests keep coming: each has waited up to a second
        queue = waiting((BATCH, 0.0, 90), *[(REALTIME, now - wait / 10, 5) for wait in range(1, 11)])
        ranks.append(policy.order(queue.columns, now).tolist().index(0))
    assert ranks[0] == ranks[1] == 10
    assert ranks[2] < 10 and ranks[3] == 0


@pytest.mark.parametrize(("waiting_tier", "running_tier"), list(itertools.product(Tier, Tier)))
def test_more_urgent_tiers_displace_less_urgent_ones(waiting_tier, running_tier):
    policy = ThreeTier(100)
    candidate = Sequence(make_request("a", [1], 1, tier=waiting_tier), 1)
    victim = Sequence(make_request("b", [1], 1, tier=running_tier), 2)
    victim.slot = 0
    more_urgent = waiting_tier < running_tier
    assert policy.displaces(candidate, victim, 1e6) == more_urgent, "also after a long wait"
    assert policy.overtakes(candidate, victim, 0.0) == more_urgent
    counts = [[int(tier is one) for tier in Tier] for one in (waiting_tier, running_tier)]
    assert policy.restless(*counts) == more_urgent


def test_a_long_wait_overtakes_but_is_not_overtaken():
    policy = ThreeTier(100, Weights(lift_s=10.0))
    old = Sequence(make_request("old", [1], 1, tier=BATCH, arrived_s=0.0), 1)
    new = Sequence(make_request("new", [1], 1, tier=REALTIME, arrived_s=25.0), 2)
    assert policy.overtakes(new, old, 19.0) and not policy.overtakes(new, old, 25.0)
    running = Sequence(make_request("running", [1], 1, tier=STREAMING), 3)
    running.slot = 0
    assert policy.overtakes(old, running, 25.0) and not policy.overtakes(old, running, 5.0)


def test_batch_work_does_not_take_pages_from_batch_work():
    policy = ThreeTier(100)
    one = {tier: Sequence(make_request("a", [1], 1, tier=tier), 1) for tier in Tier}
    for needy, running in itertools.product(Tier, Tier):
        assert policy.takes_pages(one[needy], one[running]) == ((needy, running) != (BATCH, BATCH))


def test_the_terms_add_up_to_the_priority():
    queue = waiting((BATCH, 0.0, 10), (REALTIME, 9.0, 20))
    terms = ThreeTier(100).explain(queue.columns, 10.0)
    assert (terms["interactivity"] + terms["waited"] + terms["resource"]).tolist() == pytest.approx(terms["priority"])
    assert terms["tier"].tolist() == [2, 0]
