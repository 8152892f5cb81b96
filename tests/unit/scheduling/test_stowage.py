from __future__ import annotations

import pytest

from andes_jax.request import FinishReason, Tier
from andes_jax.scheduling.plan import PageCopy
from tests.fakes import Rig, expected_ids, make_request
from tests.unit.scheduling.parts import COPIES_ARE_CHEAP, COPIES_ARE_DEAR, known_times, parts

REALTIME, STREAMING, BATCH = Tier


def test_parked_pages_are_taken_only_as_far_as_needed_the_least_urgent_first():
    owner = parts(pages=25, slots=6)
    paused = owner.parked("paused", REALTIME, prompt=8)
    for id, tier in (("rt", REALTIME), ("old", BATCH), ("new", BATCH)):
        owner.running(id, tier, prompt=8)
    waits = {id: owner.roster.live[id] for id in ("rt", "old", "new")}
    taker = owner.running("taker", prompt=4)
    for sequence in waits.values():
        owner.roster.preempt(sequence, taker, 0.0)
    urgent_last = [paused, waits["new"], waits["old"], waits["rt"]]
    assert owner.stowage.parked_sequences() == urgent_last and owner.pool.available == 15
    gone: list[str] = []
    for wanted in (15, 16, 18, 20, 22, 23):
        assert owner.stowage.reclaim(wanted)
        for sequence in (paused, *waits.values()):
            if not sequence.pages and sequence.id not in gone:
                gone.append(sequence.id)
        assert owner.stowage.parked == 4 - len(gone)
    assert gone == ["paused", "new", "old", "rt"]
    assert not owner.stowage.reclaim(24), "the taker's page is not to be had"
    owner.stowage.check()


def test_the_one_that_asks_keeps_its_own():
    owner = parts(pages=5, slots=3)
    asks, other = owner.parked("asks", BATCH, prompt=8), owner.parked("other", REALTIME, prompt=4)
    assert owner.stowage.parked_sequences(keep=asks) == [other]
    owner.stowage.stow([other])
    assert asks.pages and not other.pages


def test_what_is_cheaper_to_copy_is_saved_and_comes_back():
    owner = parts(host_pages=4, times=COPIES_ARE_CHEAP, pages=9)
    sequence = owner.parked("a", prompt=9)
    table = sequence.table
    assert len(table) == 3 and owner.stowage.reclaim(8)
    assert sequence.pages == [] and sequence.computed == 0 and sequence.stored_tokens == 9
    assert owner.stowage.host_pages.free == 1 and owner.stowage.saved_pages == 3
    assert owner.stowage.take_saves() == (PageCopy(table, sequence.stored),)
    assert owner.stowage.take_saves() == (), "once"
    host = sequence.stored
    assert owner.paging.seat(sequence, ([], 0), 12)
    assert owner.stowage.load(sequence, 0) == PageCopy(sequence.table[:3], host)
    assert sequence.computed == 9 and sequence.stored == () and owner.stowage.loaded_pages == 3
    assert owner.stowage.host_pages.free == 1, "the step that reads them has not been planned"
    owner.stowage.step_planned()
    assert owner.stowage.host_pages.free == 4
    assert owner.stowage.load(sequence, 0) is None
    owner.stowage.check()


def test_only_what_the_prefix_cache_does_not_have_is_loaded():
    owner = parts(host_pages=4, pages=9)
    sequence = owner.parked("a", prompt=9)
    assert owner.stowage.reclaim(8)
    host = sequence.stored
    owner.paging.seat(sequence, ([], 0), 9)
    sequence.computed = 4
    assert owner.stowage.load(sequence, 1) == PageCopy(sequence.table[1:3], host[1:])
    assert sequence.computed == 9 and owner.stowage.loaded_pages == 2


def test_what_the_prefix_cache_has_in_full_is_not_loaded():
    owner = parts(host_pages=4, pages=9)
    sequence = owner.parked("a", prompt=8)
    assert owner.stowage.reclaim(8)
    owner.paging.seat(sequence, ([], 0), 8)
    sequence.computed = 8
    assert owner.stowage.load(sequence, 2) is None and sequence.stored == ()
    owner.stowage.step_planned()
    assert owner.stowage.host_pages.free == 4 and owner.stowage.loaded_pages == 0


@pytest.mark.parametrize(("times", "host_pages"), [(COPIES_ARE_DEAR, 9), (COPIES_ARE_CHEAP, 2), (COPIES_ARE_CHEAP, 0)])
def test_what_is_dear_to_copy_or_finds_no_room_is_computed_again(times, host_pages):
    owner = parts(host_pages=host_pages, times=times, pages=9)
    sequence = owner.parked("a", prompt=9)
    assert owner.stowage.reclaim(8)
    assert sequence.pages == [] and sequence.stored == () and owner.stowage.take_saves() == ()
    assert owner.stowage.recomputed_tokens == 9 and owner.stowage.host_pages.free == host_pages
    assert [line["event"] for line in owner.journal.explain("a")["events"]][-1] == "dropped"


def test_the_cost_is_that_of_the_cheaper_way():
    # Out and back at 2 ms a page, or 3 ms a token again.
    owner = parts(host_pages=3, times=known_times(page=0.002, prefill=0.003), pages=20)
    small, large = owner.parked("small", prompt=9), owner.parked("large", prompt=16)
    assert owner.stowage.cost_s(small) == pytest.approx(2 * 3 * 0.002)
    assert owner.stowage.cost_s(large) == pytest.approx(16 * 0.003), "four pages do not fit"
    one = owner.parked("one", prompt=1)
    assert owner.stowage.cost_s(one) == pytest.approx(0.003)


def test_one_that_ends_while_its_save_is_pending_is_not_saved():
    owner = parts(host_pages=4, pages=9)
    sequence = owner.parked("a", prompt=9)
    assert owner.stowage.reclaim(8)
    owner.roster.finish(sequence, FinishReason.CANCELLED)
    assert owner.stowage.take_saves() == () and owner.stowage.host_pages.free == 4
    owner.stowage.check()


def test_one_that_ends_while_stored_gives_its_host_pages_back():
    owner = parts(host_pages=4, pages=9)
    sequence = owner.parked("a", prompt=9)
    assert owner.stowage.reclaim(8) and owner.stowage.take_saves()
    owner.roster.finish(sequence, FinishReason.CANCELLED)
    assert owner.stowage.host_pages.free == 4 and sequence.stored == ()
    owner.stowage.check()


def test_check_sees_parked_ones_without_pages():
    owner = parts()
    sequence = owner.parked("a")
    owner.paging.release(sequence)
    with pytest.raises(AssertionError):
        owner.stowage.check()


def paused_and_pushed_out(**options) -> tuple[Rig, list]:
    """Batch work rests after some tokens, and realtime work takes all pages for a while."""
    rig = Rig(policy="three_tier", **{"pages": 9, "page_tokens": 4, "slots": 2, "prefix": False, **options})
    batch = make_request("batch", [7] * 9, 12, tier=BATCH)
    urgent = make_request("urgent", [9] * 20, 8, tier=REALTIME)
    rig.add(batch)
    for _ in range(5):
        rig.step()
    assert rig.scheduler.pause("batch", rig.now)
    rig.add(urgent)
    return rig, [batch, urgent]


def ran_to_its_end(rig: Rig, requests: list) -> None:
    rig.scheduler.resume("batch", rig.now)
    rig.run()
    for request in requests:
        assert tuple(rig.got[request.id]) == expected_ids(request), request.id
    assert rig.scheduler.stowage.host_pages.free == rig.scheduler.stowage.host_pages.total


def test_saved_pages_come_back_with_what_they_held():
    rig, requests = paused_and_pushed_out(host_pages=8, times=COPIES_ARE_CHEAP)
    while rig.scheduler.has_work:
        rig.step()
    assert rig.scheduler.stowage.saved_pages > 0 and 0 < len(rig.got["batch"]) < 12
    ran_to_its_end(rig, requests)
    stowage = rig.scheduler.stowage
    assert stowage.loaded_pages == stowage.saved_pages > 0 and stowage.recomputed_tokens == 0
    computed = sum(part.count for plan in rig.runner.plans for part in plan.slices)
    assert computed == 9 + 11 + 20 + 7, "nothing was computed twice"
    assert [line["event"] for line in rig.scheduler.journal.explain("batch")["events"]] == [
        "arrived", "admitted", "paused", "saved", "resumed", "admitted", "finished"
    ]  # fmt: skip


def test_dropped_pages_are_computed_again():
    rig, requests = paused_and_pushed_out(host_pages=8, times=COPIES_ARE_DEAR)
    while rig.scheduler.has_work:
        rig.step()
    ran_to_its_end(rig, requests)
    stowage = rig.scheduler.stowage
    assert stowage.saved_pages == stowage.loaded_pages == 0 and stowage.recomputed_tokens >= 9


def test_pages_nobody_wanted_are_still_there():
    rig, requests = paused_and_pushed_out(pages=40, host_pages=8, times=COPIES_ARE_CHEAP)
    while rig.scheduler.has_work:
        rig.step()
    ran_to_its_end(rig, requests)
    stowage = rig.scheduler.stowage
    assert stowage.saved_pages == stowage.loaded_pages == stowage.recomputed_tokens == 0
    assert sum(part.count for plan in rig.runner.plans for part in plan.slices) == 9 + 11 + 20 + 7


def test_everything_stored_is_lost_at_a_restart_and_computed_again():
    rig, requests = paused_and_pushed_out(host_pages=8, times=COPIES_ARE_CHEAP)
    while not rig.scheduler.stowage.saved_pages:
        rig.step()
    rig.runner.reset()
    rig.scheduler.restart(rig.now)
    rig.in_flight = 0
    assert rig.scheduler.stowage.host_pages.free == 8 and rig.pool.free == rig.pool.total
    ran_to_its_end(rig, requests)
    assert rig.scheduler.stowage.loaded_pages == 0


@pytest.mark.parametrize("steps", range(12))
def test_one_cancelled_at_any_time_of_its_journey_leaves_nothing_behind(steps):
    rig, (_, urgent) = paused_and_pushed_out(host_pages=8, times=COPIES_ARE_CHEAP)
    for number in range(steps):
        rig.step()
        if number == 8:
            rig.scheduler.resume("batch", rig.now)
    rig.scheduler.cancel("batch")
    rig.run()
    assert tuple(rig.got["urgent"]) == expected_ids(urgent)
    assert rig.scheduler.stowage.host_pages.free == 8 and rig.scheduler.stowage.parked == 0
