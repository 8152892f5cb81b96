from __future__ import annotations

import pytest

from andes_jax.memory.pool import PagePool
from andes_jax.request import FinishReason, Tier
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.roster import SHELTER_TOKENS, Roster
from andes_jax.scheduling.sequence import Sequence, State
from tests.fakes import make_request


def roster(max_preempt: int = 3) -> Roster:
    return Roster(SchedulerLimits(2, 64, 8, 8, 4, max_preempt), Paging(PagePool(32), None, 4))


def running(owner: Roster, id: str, tier: Tier = Tier.STREAMING) -> Sequence:
    sequence = owner.add(make_request(id, [1, 2, 3], 20, tier=tier))
    assert owner._paging.seat(sequence, ([], 0), 3)
    owner.seat(sequence)
    return sequence


def test_slot_and_pages_are_kept_while_a_step_uses_them():
    owner = roster()
    sequence = running(owner, "a")
    sequence.in_flight = 1
    owner.finish(sequence, FinishReason.CANCELLED)
    assert sequence.slot is not None and sequence.pages and owner.leaving_pages() == 1
    assert len(owner.free_slots) == 1 and "a" not in owner.live
    sequence.in_flight = 0
    owner.vacate(sequence)
    assert sequence.slot is None and not sequence.pages and sorted(owner.free_slots) == [0, 1]
    assert not owner.leaving


def test_a_preempted_sequence_waits_again_only_when_its_token_is_known():
    owner = roster()
    sequence, taker = running(owner, "a"), running(owner, "b")
    sequence.in_flight = 1
    owner.preempt(sequence, taker, 5.0)
    assert sequence.state is State.WAITING and sequence.row is None and len(owner.waiting) == 0
    sequence.in_flight = 0
    owner.vacate(sequence)
    assert owner.waiting.rows == [sequence]
    assert (sequence.preempt_count, sequence.queued_s, sequence.computed) == (1, 5.0, 0)
    assert owner.displaced == [("a", "b")] and owner.preemptions == 1


def test_bounds_on_preemption():
    owner = roster(max_preempt=1)
    batch, stream = running(owner, "batch", Tier.BATCH), running(owner, "stream")
    assert owner.preemptable(batch, stream) and owner.preemptable(stream, batch)
    batch.preempt_count = stream.preempt_count = 1
    assert not owner.preemptable(stream, batch)
    assert owner.preemptable(batch, stream), "batch work always yields to more urgent work"
    batch.sheltered_until = len(batch.token_ids) + 1
    assert not owner.preemptable(batch, stream)
    waiting = owner.add(make_request("waiting", [1], 1))
    assert not owner.preemptable(waiting, stream)


def test_shelter_begins_with_the_second_start():
    owner = roster()
    sequence, taker = running(owner, "a"), running(owner, "b")
    assert sequence.sheltered_until == 0
    owner.preempt(sequence, taker, 0.0)
    assert owner._paging.seat(sequence, ([], 0), 3)
    owner.seat(sequence)
    assert sequence.sheltered_until == 3 + SHELTER_TOKENS


def test_ids_are_unique_among_the_live():
    owner = roster()
    sequence = owner.add(make_request("a", [1], 1))
    with pytest.raises(ValueError, match="live already"):
        owner.add(make_request("a", [1], 1))
    owner.finish(sequence, FinishReason.CANCELLED)
    owner.add(make_request("a", [1], 1))


def test_held_sequences_do_not_wait_for_admission():
    owner = roster()
    first, second = running(owner, "a"), owner.add(make_request("b", [1], 1))
    owner.hold_all_but(frozenset(["b"]), 1.0)
    assert owner.waiting.rows == [second] and list(owner.held.values()) == [first] and not owner.running
    later = owner.add(make_request("c", [1], 1))
    assert later.id in owner.held
    owner.finish(later, FinishReason.CANCELLED)
    owner.hold_all_but(None, 2.0)
    assert set(owner.waiting.rows) == {first, second} and not owner.held
    assert owner.waiting.per_tier == [0, 2, 0]
