from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.policies.round_robin import TURN_S, RoundRobin
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import Rig, expected_ids, make_request
from tests.unit.scheduling.parts import at, columns

EVERY_TIER = list(Tier)


def test_who_has_waited_longest_is_next_whatever_its_tier_and_arrival():
    policy = RoundRobin()
    those = columns([*EVERY_TIER, Tier.REALTIME], queued_s=[5.0, 9.0, 2.0, 2.0], arrived_s=[0.0, 1.0, 2.0, 3.0])
    assert policy.admit_order(those, at(10.0)).tolist() == [2, 3, 0, 1]
    assert policy.admit_order(those, at(10.0), 1).tolist() == [2]
    assert policy.explain(those, at(10.0))["waited_s"].tolist() == [5, 1, 8, 8]
    assert not any(policy.overtakes(*[Sequence(make_request("a", [1], 1, tier=tier), 1)] * 2, 1e6) for tier in Tier)


def test_who_has_had_its_turn_may_lose_its_place_the_longest_first():
    policy = RoundRobin(turn_s=4.0)
    running = columns([Tier.REALTIME] * 5, held_s=[10.0, 3.0, 6.0, 6.1, 3.0], order=[1, 5, 2, 3, 4])
    assert policy.victims(columns([Tier.BATCH]), running, at(10.0)).tolist() == [4, 1, 2]
    assert policy.keep_order(running, at(10.0)).tolist() == [0, 3, 2, 4, 1], "whose turn began last keeps its pages"
    assert policy.takes_pages(*[Sequence(make_request("a", [1], 1), 1)] * 2)


def test_two_share_one_slot_in_turns_and_lose_nothing():
    rig = Rig(policy="round_robin", slots=1, pages=40)
    requests = [make_request(f"r{index}", [index] * 4, 30) for index in range(2)]
    rig.add(*requests)
    turns: list[str] = []
    while rig.scheduler.has_work:
        rig.step()
        rig.now += TURN_S / 8
        turns += [one for one in rig.running() if turns[-1:] != [one]]
    assert turns[:4] == ["r0", "r1", "r0", "r1"] and rig.scheduler.roster.preemptions >= 3
    assert [tuple(rig.got[request.id]) for request in requests] == [expected_ids(request) for request in requests]
    assert rig.runner.violations == []
    recomputed = rig.scheduler.stowage.recomputed_tokens
    assert recomputed == 0, "the pages were nobody else's need"
