"""Who gets slots and pages when not all can have them."""

from __future__ import annotations

import pytest

from andes_jax.request import Tier
from tests.fakes import Rig, expected_ids, make_request

REALTIME, STREAMING, BATCH = Tier


def test_first_come_first_served_fills_slots_in_order():
    rig = Rig(slots=2)
    rig.add(*[make_request(f"r{index}", [index], 3, tier=Tier(2 - index % 3)) for index in range(5)])
    rig.run()
    starts = [admission.prompt_ids[0] for plan in rig.runner.plans for admission in plan.admissions]
    assert starts == [0, 1, 2, 3, 4]


def test_who_lacks_pages_is_not_overtaken_by_a_small_newcomer():
    rig = Rig(pages=11, page_tokens=4, slots=3)  # 40 tokens
    rig.add(make_request("running", [1] * 20, 10))
    rig.step()
    rig.add(make_request("large", [2] * 24, 4), make_request("small", [3], 2))
    while "large" not in rig.running():
        rig.step()
        assert "small" not in rig.running()[:1]
        assert "small" not in rig.running() or "large" in rig.running()
    rig.run()


def test_a_newcomer_leaves_room_for_those_who_run():
    rig = Rig(pages=9, page_tokens=4, slots=3)
    requests = [make_request("old", [1] * 15, 12), make_request("new", [2] * 15, 12)]
    rig.add(requests[0])
    rig.step()
    rig.add(requests[1])
    rig.step()
    assert rig.running() == ["old"], "four pages are free but one may be needed at once"
    rig.run()
    assert rig.scheduler.roster.preemptions == 0
    for request in requests:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def full_of(tier: Tier, slots: int = 3, **options) -> tuple[Rig, list]:
    rig = Rig(policy="three_tier", slots=slots, pages=128, **options)
    requests = [make_request(f"{tier.name}{index}", [index] * 4, 40, tier=tier) for index in range(slots)]
    rig.add(*requests)
    for _ in range(4):
        rig.step()
    return rig, requests


@pytest.mark.parametrize("tier", [STREAMING, BATCH])
def test_realtime_takes_one_slot_of_less_urgent_work_within_two_steps(tier):
    rig, requests = full_of(tier)
    urgent = make_request("urgent", [9, 9], 4, tier=REALTIME)
    rig.add(urgent)
    rig.step()
    rig.step()
    assert "urgent" in rig.running()
    assert rig.scheduler.roster.preemptions == 1
    rig.run()
    assert rig.scheduler.roster.preemptions == 1, "one newcomer costs one place, and nobody thrashes"
    for request in [*requests, urgent]:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_equals_do_not_displace_each_other():
    for tier in Tier:
        rig, _ = full_of(tier)
        rig.add(make_request("more", [9], 4, tier=tier))
        rig.run()
        assert rig.scheduler.roster.preemptions == 0


def test_a_place_is_lost_to_others_at_most_so_often():
    rig, requests = full_of(STREAMING, slots=1, max_preempt=2)
    sequence = rig.scheduler.roster.live[requests[0].id]
    for number in range(12):
        rig.now += 0.5
        rig.add(make_request(f"urgent{number}", [9], 2, tier=REALTIME, arrived_s=rig.now))
        for _ in range(12):
            rig.step()
    assert sequence.preempt_count == 2
    rig.run()
    assert tuple(rig.got[requests[0].id]) == expected_ids(requests[0])


def test_realtime_takes_pages_of_less_urgent_work():
    rig = Rig(policy="three_tier", slots=4, pages=13, page_tokens=4)  # 48 tokens
    batch = [make_request(f"b{index}", [index] * 14, 6, tier=BATCH) for index in range(2)]
    rig.add(*batch)
    for _ in range(3):
        rig.step()
    urgent = make_request("urgent", [9] * 20, 4, tier=REALTIME)
    rig.add(urgent)
    for _ in range(3):
        rig.step()
    assert "urgent" in rig.running() and rig.scheduler.roster.preemptions == 1
    rig.run()
    for request in [*batch, urgent]:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_an_urgent_prompt_goes_before_the_rest_of_a_running_one():
    rig = Rig(policy="three_tier", step_tokens=8, prefill_chunk=8)
    rig.add(make_request("long", range(60), 2, tier=BATCH))
    rig.step()
    rig.add(make_request("urgent", [5] * 6, 2, tier=REALTIME))
    plan = rig.step()
    assert [(part.first, part.count) for part in plan.slices] == [(0, 6), (8, 2)]
    rig.run()


def test_batch_work_ends_though_urgent_work_never_does():
    """Two realtime requests always wait for the one slot; the batch request still gets all its tokens."""
    rig = Rig(policy="three_tier", slots=1)
    batch = make_request("batch", [7] * 4, 12, tier=BATCH)
    rig.add(batch)
    number = 0
    for _ in range(6000):
        while len(rig.scheduler.roster.live) < 3 + ("batch" not in rig.scheduler.roster.live):
            rig.add(make_request(f"r{number}", [number % 50], 4, tier=REALTIME, arrived_s=rig.now))
            number += 1
        rig.step()
        rig.now += 0.1
        if "batch" not in rig.scheduler.roster.live:
            break
    assert tuple(rig.got["batch"]) == expected_ids(batch)
    assert number > 100


def test_cancelling_who_others_were_displaced_for_leaves_the_place_to_the_next():
    rig, requests = full_of(BATCH, slots=1)
    rig.add(make_request("urgent", [9], 4, tier=REALTIME))
    rig.step()
    assert rig.scheduler.roster.preemptions == 1 and rig.running() == []
    rig.scheduler.cancel("urgent")
    rig.run()
    assert tuple(rig.got[requests[0].id]) == expected_ids(requests[0])


def test_a_slot_that_comes_free_anyway_is_taken_before_anyone_is_displaced():
    rig, _ = full_of(BATCH, slots=2)
    rig.scheduler.cancel("BATCH0")
    rig.add(make_request("urgent", [9], 4, tier=REALTIME))
    rig.step()
    rig.step()
    assert set(rig.running()) == {"BATCH1", "urgent"} and rig.scheduler.roster.preemptions == 0
    rig.run()


def test_a_place_goes_to_whom_it_was_taken_for():
    rig, _ = full_of(STREAMING, slots=1)
    rig.now = 200.0
    rig.add(make_request("old", [8], 4, tier=STREAMING, arrived_s=0.0))  # ranks first by now, but displaces no equals
    rig.add(make_request("urgent", [9], 4, tier=REALTIME, arrived_s=rig.now))
    rig.step()
    rig.step()
    assert rig.running() == ["urgent"]
    rig.run()


def test_one_for_whom_others_lost_first_a_slot_and_then_pages_is_seated_once():
    rig = Rig(policy="three_tier", slots=2, pages=13, page_tokens=4, prefix=False, step_tokens=64, prefill_chunk=64)
    batch = [make_request("small", [1] * 3, 20, tier=BATCH), make_request("large", [2] * 35, 4, tier=BATCH)]
    rig.add(*batch)
    rig.plan()
    rig.commit()
    urgent = make_request("urgent", [9] * 20, 4, tier=REALTIME)
    rig.add(urgent)
    assert rig.plan().why["displaced"] == [("small", "urgent"), ("large", "urgent")]
    rig.commit()
    plan = rig.plan()
    assert [admission.prompt_ids for admission in plan.admissions][0] == urgent.prompt_ids
    assert rig.running().count("urgent") == 1
    rig.commit()
    rig.run()
    for request in [*batch, urgent]:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_what_parked_ones_gave_counts_towards_what_is_missing():
    """Slot and pages of one, and the pages of another, are enough together: both go in the same plan."""
    rig = Rig(policy="three_tier", slots=2, pages=13, page_tokens=4, prefix=False, step_tokens=64, prefill_chunk=64)
    rig.add(*[make_request(f"b{index}", [index] * 19, 4, tier=BATCH) for index in range(2)])
    rig.plan()
    rig.commit()
    rig.add(make_request("urgent", [9] * 40, 4, tier=REALTIME))
    assert {victim for victim, _ in rig.plan().why["displaced"]} == {"b0", "b1"}
    rig.commit()
    rig.plan()
    assert "urgent" in rig.running()
    rig.commit()
    rig.run()


@pytest.mark.parametrize(("policy", "steps"), [("fcfs", 60), ("three_tier", 1500)])
def test_a_large_request_is_not_kept_out_by_small_ones_that_keep_coming(policy, steps):
    """Nobody may be preempted, so that the large one can only run when few others do."""
    rig = Rig(policy=policy, pages=21, page_tokens=4, slots=4, max_preempt=0)
    rig.add(make_request("s0", [1] * 8, 12))
    rig.plan()
    rig.commit()
    rig.add(make_request("large", [2] * 30, 33))
    number = 1
    for _ in range(steps):
        while len(rig.scheduler.roster.live) < 4:
            rig.add(make_request(f"s{number}", [number % 50] * 8, 12, arrived_s=rig.now))
            number += 1
        rig.step()
        rig.now += 0.1
        if "large" in rig.running():
            break
    assert "large" in rig.running()
    rig.run()
