"""How those who wait look for pages and keep what was taken from others for them."""

from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling import admission
from andes_jax.scheduling.admission import ATTEMPTS
from andes_jax.scheduling.policies.base import Moment
from tests.fakes import Rig, expected_ids, make_request
from tests.unit.scheduling.test_admission import full_of

REALTIME, STREAMING, BATCH = Tier


def enough(tier: Tier) -> int:
    return 100


def none_for_batch(tier: Tier) -> int:
    return 0 if tier is Tier.BATCH else 100


def test_who_rests_keeps_its_pages_while_they_would_not_be_enough_for_the_next_anyway():
    rig = Rig(policy="three_tier", slots=3, pages=17, page_tokens=4, prefix=False, step_tokens=64, prefill_chunk=64)
    rig.add(make_request("runs", [1] * 24, 8, tier=REALTIME), make_request("rests", [2] * 16, 4, tier=REALTIME))
    rig.step()
    rig.scheduler.pause("rests", 0.0)
    rig.step()
    rig.add(make_request("large", [3] * 52, 4, tier=REALTIME))
    rig.step()
    rests = rig.scheduler.roster.live["rests"]
    assert rig.running() == ["runs"] and rests.pages, "they and the free ones do not hold the large one"
    while "large" not in rig.running():
        rig.step()
    assert not rests.pages, "now they did"
    rig.scheduler.resume("rests", 0.0)
    rig.run()


def test_pages_that_only_resting_ones_share_are_had_though_somebody_always_runs():
    rig = Rig(policy="three_tier", slots=3, pages=17, page_tokens=4, step_tokens=64, prefill_chunk=64)
    shared = list(range(24))
    for name in ("first", "second"):
        rig.add(make_request(name, [*shared, len(name)], 4, tier=REALTIME))
        rig.step()
        rig.scheduler.pause(name, 0.0)
        rig.step()
    rests = [rig.scheduler.roster.live[name] for name in ("first", "second")]
    assert rests[0].pages[:6] == rests[1].pages[:6]
    rig.add(make_request("r0", [30] * 4, 4, tier=REALTIME))
    rig.step()
    rig.add(make_request("large", [31] * 28, 4, tier=REALTIME))
    for number in range(1, 20):
        rig.add(make_request(f"r{number}", [30 + number] * 4, 4, tier=REALTIME))
        rig.step()
        assert rig.running()
        if "large" in rig.running():
            break
    assert "large" in rig.running()
    for name in ("first", "second"):
        rig.scheduler.resume(name, 0.0)
    rig.run()


def test_a_claim_that_was_not_looked_at_stands():
    """Those for whom others lost their places get these though other candidates use up the look before them."""
    rig, _ = full_of(STREAMING, slots=6)
    urgent = [make_request(f"u{index}", [9], 4, tier=REALTIME) for index in range(6)]
    rig.add(*urgent)
    rig.plan()
    rig.commit()
    admitter = rig.scheduler.admitter
    assert list(admitter._claims) == [rig.scheduler.roster.live[request.id] for request in urgent]
    admitter.begin(Moment(rig.now, 9, 0.5, 0.1))
    first = admitter.next(enough)
    assert first is not None and first.id == "u0"
    admitter.begin(Moment(rig.now, 10, 0.5, 0.1))
    assert [sequence.id for sequence in admitter._claims] == ["u1", "u2", "u3", "u4", "u5"]


def test_batch_prompts_for_which_a_step_has_no_room_hide_nobody_behind_them():
    rig = Rig(policy="three_tier", slots=4)
    rig.add(make_request("lifted", [1] * 8, 4, tier=BATCH, arrived_s=0.0))
    rig.now = 200.0
    rig.add(make_request("urgent", [2] * 8, 4, tier=REALTIME, arrived_s=200.0))
    admitter = rig.scheduler.admitter
    admitter.begin(Moment(200.0, 1, 0.0, 0.1))
    seated = admitter.next(none_for_batch)
    assert seated is not None and seated.id == "urgent"
    assert admitter.next(none_for_batch) is None
    admitter.begin(Moment(200.0, 2, 0.0, 0.1))
    assert admitter.looking, "the batch request is looked at again at once"
    lifted = admitter.next(enough)
    assert lifted is not None and lifted.id == "lifted"


def test_searches_that_find_pages_do_not_count_against_those_behind(monkeypatch):
    monkeypatch.setattr(admission, "ATTEMPTS", 1)
    rig = Rig(policy="three_tier", slots=6, pages=33, page_tokens=4, prefix=False, step_tokens=64, prefill_chunk=64)
    for index in range(3):
        rig.add(make_request(f"rests{index}", [index] * 31, 4, tier=REALTIME))
        rig.step()
        rig.scheduler.pause(f"rests{index}", 0.0)
        rig.step()
    rig.add(make_request("runs", [4] * 4, 20, tier=REALTIME))
    rig.step()
    rig.add(*[make_request(f"w{index}", [5 + index] * 24, 4, tier=REALTIME) for index in range(2)])
    rig.plan()
    assert {"w0", "w1"} <= set(rig.running()) and rig.scheduler.stowage.parked < 3
    rig.commit()
    for index in range(3):
        rig.scheduler.resume(f"rests{index}", 0.0)
    rig.run()


def test_few_of_those_who_lack_pages_look_for_others_to_give_them(monkeypatch):
    rig = Rig(policy="three_tier", slots=32, pages=9, page_tokens=4)
    rig.add(make_request("runs", [1] * 20, 8, tier=REALTIME))
    rig.step()
    looks = []
    victims = rig.scheduler.policy.victims
    monkeypatch.setattr(rig.scheduler.policy, "victims", lambda *told: looks.append(1) or victims(*told))
    rig.add(*[make_request(f"w{index}", [2] * 24, 4, tier=REALTIME) for index in range(20)])
    rig.step()
    assert rig.running() == ["runs"] and len(looks) == ATTEMPTS
    rig.run()


def test_the_pages_one_kept_are_no_reason_to_wait_for_more():
    rig = Rig(policy="three_tier", slots=2, pages=13, page_tokens=4, prefix=False, step_tokens=64, prefill_chunk=64)
    request = make_request("urgent", [9] * 24, 12, tier=REALTIME)
    rig.add(request)
    rig.plan()
    rig.commit()
    rig.scheduler.pause("urgent", 0.0)
    batch = make_request("batch", [2] * 18, 30, tier=BATCH)
    rig.add(batch)
    while rig.pool.available:
        rig.plan()
        rig.commit()
    assert rig.scheduler.roster.live["urgent"].pages, "nobody needed them yet"
    rig.scheduler.resume("urgent", 0.0)
    rig.plan()
    rig.commit()
    rig.plan()
    assert "urgent" in rig.running()
    rig.commit()
    rig.run()
    assert tuple(rig.got["urgent"]) == expected_ids(request) and tuple(rig.got["batch"]) == expected_ids(batch)


def test_nobody_is_displaced_for_pages_that_the_newcomer_shares_with_it():
    """Had these left, the newcomer would need their pages itself, and lack as many as before."""
    rig = Rig(
        policy="three_tier", slots=8, pages=42, page_tokens=4, max_model_len=150, step_tokens=128, prefill_chunk=128
    )
    shared = [index % 97 for index in range(41)]
    rig.add(make_request("firm", [9] * 88, 3, tier=REALTIME))
    rig.step()
    for name in "vw":
        rig.add(make_request(name, [*shared, ord(name)], 30, tier=STREAMING))
        rig.step()
        rig.step()
    rig.add(make_request("new", shared[:40] + [1, 2, 3, 4] * 8, 4, tier=REALTIME))
    while "firm" in rig.scheduler.roster.live:
        assert rig.step().why["displaced"] == []
    rig.run()


def test_a_slot_that_comes_free_anyway_is_nobodys_until_it_is_free():
    """Less urgent work that waits for it does not come before somebody who arrives meanwhile."""
    for tier in (STREAMING, BATCH):
        rig = Rig(policy="three_tier", slots=1)
        rig.add(make_request("ends", [1, 2, 3], 40, tier=REALTIME), make_request("waits", [4, 5, 6], 30, tier=tier))
        for _ in range(5):
            rig.step()
        rig.scheduler.cancel("ends")
        rig.plan()
        while rig.in_flight:
            rig.commit()
        rig.add(make_request("urgent", [7, 8, 9], 4, tier=REALTIME, arrived_s=rig.now))
        rig.plan()
        assert rig.running() == ["urgent"] and rig.scheduler.roster.preemptions == 0
        rig.commit()
        rig.run()


def test_who_is_left_when_the_slots_are_given_out_is_looked_at_again_at_once():
    rig, _ = full_of(BATCH, slots=2)
    rig.scheduler.cancel("BATCH0")
    while rig.in_flight:
        rig.commit()
    rig.add(*[make_request(f"u{index}", [9], 4, tier=REALTIME, arrived_s=rig.now) for index in range(2)])
    rig.plan()
    assert "u0" in rig.running() and rig.scheduler.roster.changed
    assert rig.plan().why["displaced"] == [("BATCH1", "u1")]
    while rig.in_flight:
        rig.commit()
    rig.run()


def test_nobody_loses_a_slot_to_one_that_could_not_be_finished_for_certain():
    rig = Rig(policy="three_tier", slots=2, pages=33, page_tokens=4, max_model_len=128, prefix=False, max_preempt=1)
    for name, prompt, tier in (("firm", 40, STREAMING), ("new", 20, REALTIME)):
        rig.add(make_request(name, range(prompt), 60, tier=tier))
        rig.scheduler.roster.live[name].preempt_count = 1
        if name == "firm":
            rig.step()
            rig.add(make_request("batch", [1], 30, tier=BATCH))
            for _ in range(3):
                rig.step()
    for _ in range(20):
        rig.now += 0.1
        assert rig.step().why["displaced"] == []
    rig.run()


def test_what_the_cache_has_of_prompts_is_looked_for_a_few_times_a_plan(monkeypatch):
    rig = Rig(policy="three_tier", slots=32, pages=9, page_tokens=4)
    rig.add(make_request("runs", [1] * 20, 8, tier=REALTIME))
    rig.step()
    looks = []
    find = rig.scheduler.paging.find
    monkeypatch.setattr(rig.scheduler.paging, "find", lambda sequence: looks.append(1) or find(sequence))
    rig.add(*[make_request(f"w{index}", [2] * 24, 4, tier=REALTIME) for index in range(20)])
    rig.step()
    assert len(looks) == ATTEMPTS
    rig.run()
