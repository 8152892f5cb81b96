"""Pages run short while sequences run: who loses theirs, how often, and that nothing is lost with them."""

from __future__ import annotations

from random import Random

import pytest

from andes_jax.request import FinishReason, Tier
from andes_jax.scheduling.policies.fcfs import FirstComeFirstServed
from andes_jax.scheduling.relief import Relief
from andes_jax.scheduling.roster import SHELTER_TOKENS
from andes_jax.scheduling.sequence import State
from tests.fakes import Rig, expected_ids, make_request
from tests.unit.scheduling.parts import Parts, at, parts


def short_of_pages(policy: str = "fcfs", count: int = 4, tier: Tier = Tier.STREAMING, **options) -> tuple[Rig, list]:
    """Requests that are admitted together but cannot all grow to their end."""
    rig = Rig(policy=policy, **{"pages": 17, "page_tokens": 2, "slots": count, "max_model_len": 32, **options})
    requests = [make_request(f"r{index}", [index] * 3, 20, tier=tier) for index in range(count)]
    rig.add(*requests)
    return rig, requests


@pytest.mark.parametrize("policy", ["fcfs", "three_tier"])
@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("prefix", [True, False])
def test_shortage_loses_and_repeats_nothing(policy, tier, prefix):
    rig, requests = short_of_pages(policy, tier=tier, prefix=prefix)
    rig.run()
    assert rig.scheduler.roster.preemptions > 0
    for request in requests:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_the_first_never_loses_its_pages_and_the_last_goes_first():
    rig, _ = short_of_pages()
    while not rig.scheduler.roster.preemptions:
        plan = rig.step()
    ((victim, taker),) = plan.why["displaced"]
    assert victim == "r3" and taker != "r3"
    assert rig.step().why["displaced"] == [], "the pages on their way are enough"
    live = rig.scheduler.roster.live
    rig.run()
    assert list(rig.got)[0] == "r0" and "r0" not in live
    finished = [request_id for request_id in sorted(rig.advances, key=lambda one: len(rig.advances[one]))]
    assert set(finished) == {"r0", "r1", "r2", "r3"}


def test_a_preempted_sequence_keeps_its_place_and_its_output():
    rig, requests = short_of_pages()
    while not rig.scheduler.roster.preemptions:
        rig.step()
    victim = rig.scheduler.roster.live["r3"]
    rig.add(make_request("late", [9] * 3, 20))
    rig.run()
    assert victim.preempt_count >= 1
    admissions = [admission for plan in rig.runner.plans for admission in plan.admissions]
    again = [one for one in admissions if one.prompt_ids == (3, 3, 3) and one.output_ids]
    assert again and again[0].output_ids == expected_ids(requests[3])[: len(again[0].output_ids)]
    late = next(index for index, one in enumerate(admissions) if one.prompt_ids == (9, 9, 9))
    assert admissions.index(again[0]) < late, "a later arrival does not overtake it"


@pytest.mark.parametrize("max_preempt", [0, 1, 3])
def test_nobody_is_preempted_more_often_than_allowed(max_preempt):
    rig, requests = short_of_pages(count=8, pages=18, max_preempt=max_preempt)
    sequences = list(rig.scheduler.roster.live.values())
    rig.run()
    assert max(sequence.preempt_count for sequence in sequences) <= max_preempt
    for request in requests:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_who_comes_back_gets_some_tokens_before_it_can_lose_its_pages_again():
    rig, _ = short_of_pages(count=8, pages=18)
    started: dict[str, int] = {}
    losses: dict[str, int] = {}
    while rig.scheduler.has_work:
        running = set(rig.running())
        rig.step()
        live = rig.scheduler.roster.live
        for request_id in set(rig.running()) - running:
            started[request_id] = len(rig.got.get(request_id, []))
        for request_id, sequence in live.items():
            if sequence.preempt_count > losses.get(request_id, 0):
                if losses.get(request_id):
                    assert sequence.generated - started[request_id] >= SHELTER_TOKENS
                losses[request_id] = sequence.preempt_count
    assert max(losses.values()) >= 2, "the test needs somebody to lose twice"


def test_batch_work_waits_in_place_for_pages_of_batch_work():
    rig = Rig(policy="three_tier", pages=5, page_tokens=8, slots=2, max_model_len=32)
    requests = [make_request("a", [1] * 3, 25, tier=Tier.BATCH), make_request("b", [2] * 9, 20, tier=Tier.BATCH)]
    rig.add(*requests)
    paused = 0
    while rig.scheduler.has_work:
        plan = rig.step()
        rig.now += 0.01
        waits = [one for one in rig.scheduler.roster.running if one.capacity == one.computed < one.goal]
        paused += bool(waits and plan.slices)
    assert paused >= 5
    assert rig.scheduler.roster.preemptions == 1, "only when neither could go on"
    for request in requests:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_batch_work_yields_without_counting():
    rig = Rig(policy="three_tier", pages=11, page_tokens=2, slots=3, max_model_len=32, max_preempt=1)
    batch = make_request("batch", [7] * 3, 18, tier=Tier.BATCH)
    rig.add(batch)
    sequence = rig.scheduler.roster.live["batch"]
    for number in range(8):
        rig.add(make_request(f"r{number}", [number] * 3, 12, tier=Tier.REALTIME, arrived_s=rig.now))
        for _ in range(17):
            rig.step()
            rig.now += 0.1
    rig.run()
    assert sequence.yields >= 2 and sequence.preempt_count == 0
    assert tuple(rig.got["batch"]) == expected_ids(batch)


def stuck_for_pages() -> tuple[Parts, Relief, list]:
    """Two run and lack a page each, none is free, and the later one cannot lose its place again."""
    owner = parts(pages=7, page_tokens=8, max_preempt=1)
    first, last = owner.running("first", prompt=24), owner.running("last", prompt=24)
    last.preempt_count = 1
    for sequence in (first, last):
        sequence.known += 1
    relief = Relief(owner.roster, owner.ledger, owner.paging, owner.stowage, FirstComeFirstServed(), owner.guarantee)
    return owner, relief, [first, last]


def test_when_nothing_can_advance_the_worst_ranked_that_may_be_displaced_gives_way():
    owner, relief, (first, last) = stuck_for_pages()
    relief.serve([first, last], at(1.0))
    assert owner.roster.displaced == [] and owner.pool.available == 0
    assert relief.force(at(1.0))
    assert owner.roster.displaced == [("first", "last")] and first.preempt_count == last.preempt_count == 1
    relief.serve([last], at(1.0))
    assert len(last.pages) == 4


def test_nobody_is_forced_to_give_way_to_itself():
    owner, relief, (first, last) = stuck_for_pages()
    owner.roster.finish(first, FinishReason.CANCELLED)
    assert not relief.force(at(1.0)) and last.state is State.RUNNING


@pytest.mark.parametrize("lengths", [(60,), (20, 60, 120), (10, 200)])
def test_batch_work_that_cannot_all_grow_gets_as_much_done_as_in_order_of_arrival(lengths):
    """Nobody takes pages of batch work that gets on, but what stands still makes way for the rest."""

    def steps(policy: str) -> int:
        rig = Rig(
            policy=policy, slots=16, pages=129, page_tokens=4, step_tokens=1024, prefill_chunk=256, max_model_len=256,
            prefix=False,
        )  # fmt: skip
        draw = Random(7)
        rig.add(*[make_request(f"b{index}", [1] * draw.randint(4, 16), draw.choice(lengths), tier=Tier.BATCH)
                  for index in range(48)])  # fmt: skip
        count = 0
        while rig.scheduler.has_work:
            rig.now += 0.02
            rig.step()
            count += 1
            assert count < 5000
        return count

    assert steps("three_tier") <= 1.1 * steps("fcfs")


@pytest.mark.parametrize("max_preempt", [0, 3])
def test_work_per_plan_grows_no_faster_than_the_number_of_those_who_lack_pages(max_preempt, monkeypatch):
    def asked(count: int) -> float:
        rig = Rig(
            policy="three_tier", slots=count, pages=(2 * count if max_preempt else 6 * count) + 1, page_tokens=4,
            step_tokens=16 * count, max_model_len=32, max_preempt=max_preempt, prefix=False,
        )  # fmt: skip
        roster, guarantee, asks = rig.scheduler.roster, rig.scheduler.admitter._guarantee, [0]
        preemptable, claims = roster.preemptable, guarantee._claims
        monkeypatch.setattr(roster, "preemptable", lambda *told: asks.append(1) or preemptable(*told))

        def counted(running):
            running = list(running)
            asks.extend([1] * len(running))
            return claims(running)

        monkeypatch.setattr(guarantee, "_claims", counted)
        rig.add(*[make_request(f"b{index}", [1] * 3, 20, tier=Tier.BATCH) for index in range(count)])
        most = 0
        while rig.scheduler.has_work:
            rig.now += 0.01
            asks.clear()
            plan = rig.step()
            if not plan.admissions:
                most = max(most, len(asks))
        return most / count

    assert asked(128) <= 2 * max(asked(32), 4)
