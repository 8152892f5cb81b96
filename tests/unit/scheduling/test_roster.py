from __future__ import annotations

import pytest

from andes_jax.request import FinishReason, QoeTarget, Tier
from andes_jax.scheduling.roster import SHELTER_TOKENS
from andes_jax.scheduling.sequence import State
from tests.fakes import make_request
from tests.unit.scheduling.parts import parts


def test_slot_and_pages_are_kept_while_a_step_uses_them():
    owner = parts()
    roster, sequence = owner.roster, owner.running("a")
    sequence.in_flight = 1
    roster.finish(sequence, FinishReason.CANCELLED)
    assert sequence.slot is not None and sequence.pages and roster.leaving_pages() == 1
    assert len(roster.free_slots) == 1 and "a" not in roster.live
    sequence.in_flight = 0
    roster.vacate(sequence)
    assert sequence.slot is None and not sequence.pages and sorted(roster.free_slots) == [0, 1]
    assert not roster.leaving


def test_a_preempted_sequence_waits_again_only_when_its_token_is_known():
    owner = parts()
    roster, sequence, taker = owner.roster, owner.running("a"), owner.running("b")
    sequence.in_flight = 1
    roster.preempt(sequence, taker, 5.0)
    assert sequence.state is State.WAITING and sequence.place is None and len(roster.waiting) == 0
    assert not owner.stowage.holds_pages(sequence), "a step in flight still writes them"
    sequence.in_flight = 0
    roster.vacate(sequence)
    assert roster.waiting.members == [sequence]
    assert (sequence.preempt_count, sequence.queued_s) == (1, 5.0)
    assert roster.displaced == [("a", "b")] and roster.preemptions == 1


def test_a_preempted_sequence_keeps_what_it_has_until_somebody_wants_it():
    owner = parts()
    sequence, taker = owner.running("a"), owner.running("b")
    held = list(sequence.pages)
    owner.roster.preempt(sequence, taker, 5.0)
    assert sequence.slot is None and sequence.pages == held and sequence.computed == 3
    assert owner.stowage.holds_pages(sequence) and owner.roster.leaving_pages() == 0
    owner.roster.seat(sequence, 6.0)
    assert sequence.state is State.RUNNING and not owner.stowage.holds_pages(sequence) and sequence.computed == 3


def test_one_whose_prompt_is_being_scored_begins_anew():
    owner = parts()
    sequence, taker = owner.running("a", prompt_logprobs=True), owner.running("b")
    sequence.scores = ["of position 1"]
    owner.roster.preempt(sequence, taker, 5.0)
    assert sequence.pages == [] and sequence.computed == 0 and sequence.scores == []
    assert not owner.stowage.holds_pages(sequence) and sequence.place is not None


def test_bounds_on_preemption():
    owner = parts(max_preempt=1)
    roster, batch, stream = owner.roster, owner.running("batch", Tier.BATCH), owner.running("stream")
    assert roster.preemptable(batch, stream) and roster.preemptable(stream, batch)
    batch.preempt_count = stream.preempt_count = 1
    assert not roster.preemptable(stream, batch)
    assert roster.preemptable(batch, stream), "batch work always yields to more urgent work"
    batch.sheltered_until = len(batch.token_ids) + 1
    assert not roster.preemptable(batch, stream)
    waiting = roster.add(make_request("waiting", [1], 1))
    assert not roster.preemptable(waiting, stream)


def test_yields_are_counted_apart():
    owner = parts(slots=3)
    batch, other, stream = owner.running("b", Tier.BATCH), owner.running("o", Tier.BATCH), owner.running("s")
    owner.roster.preempt(batch, stream, 0.0)
    assert (batch.yields, batch.preempt_count) == (1, 0)
    owner.roster.seat(batch, 0.0)
    owner.roster.preempt(batch, other, 0.0)
    assert (batch.yields, batch.preempt_count) == (1, 1)


def test_shelter_begins_with_the_second_start():
    owner = parts()
    sequence, taker = owner.running("a"), owner.running("b")
    assert sequence.sheltered_until == 0 and sequence.first_run_s == 0.0
    owner.roster.preempt(sequence, taker, 0.0)
    owner.roster.seat(sequence, 7.0)
    assert sequence.sheltered_until == 3 + SHELTER_TOKENS
    assert sequence.first_run_s == 0.0, "the first wait is over once"


def test_ids_are_unique_among_the_live():
    owner = parts().roster
    sequence = owner.add(make_request("a", [1], 1))
    with pytest.raises(ValueError, match="live already"):
        owner.add(make_request("a", [1], 1))
    owner.finish(sequence, FinishReason.CANCELLED)
    assert sequence.row is None
    owner.add(make_request("a", [1], 1))


def test_held_sequences_do_not_wait_for_admission():
    owner = parts()
    roster = owner.roster
    first, second = owner.running("a"), roster.add(make_request("b", [1], 1))
    roster.hold_all_but(frozenset(["b"]), 1.0)
    assert roster.waiting.members == [second] and list(roster.held.values()) == [first] and not roster.running
    later = roster.add(make_request("c", [1], 1))
    assert later.id in roster.held
    roster.finish(later, FinishReason.CANCELLED)
    roster.hold_all_but(None, 2.0)
    assert set(roster.waiting.members) == {first, second} and not roster.held
    assert roster.waiting.per_tier == [0, 2, 0]
    owner.pool.check()
    assert owner.pool.live == 0


def test_paused_it_is_held_with_its_pages_and_resumed_it_waits():
    owner = parts()
    roster, sequence = owner.roster, owner.running("a")
    roster.pause(sequence, 3.0)
    roster.pause(sequence, 4.0)
    assert list(roster.held.values()) == [sequence] and not roster.waiting
    assert owner.stowage.holds_pages(sequence) and sequence.preempt_count == sequence.yields == 0
    roster.resume(sequence, 9.0)
    roster.resume(sequence, 10.0)
    assert roster.waiting.members == [sequence] and not roster.held and sequence.queued_s == 9.0
    owner.roster.seat(sequence, 9.0)
    assert sequence.sheltered_until == 0, "it lost nothing to others"


def test_one_paused_while_it_leaves_is_held_when_it_has_left():
    owner = parts()
    roster, sequence, taker = owner.roster, owner.running("a"), owner.running("b")
    sequence.in_flight = 1
    roster.preempt(sequence, taker, 1.0)
    roster.pause(sequence, 2.0)
    assert not roster.held and not roster.waiting
    sequence.in_flight = 0
    roster.vacate(sequence)
    assert "a" in roster.held
    roster.resume(sequence, 3.0)
    assert roster.waiting.members == [sequence]


def test_one_resumed_while_its_last_step_is_in_flight_waits_afterwards():
    owner = parts()
    roster, sequence = owner.roster, owner.running("a")
    sequence.in_flight = 1
    roster.pause(sequence, 1.0)
    roster.resume(sequence, 2.0)
    assert not roster.held and not roster.waiting
    sequence.in_flight = 0
    roster.vacate(sequence)
    assert roster.waiting.members == [sequence]


def test_nobody_rests_while_on_trial():
    owner = parts()
    roster = owner.roster
    first, second = (roster.add(make_request(id, [1], 1)) for id in "ab")
    roster.hold_all_but(frozenset(["a"]), 1.0)
    roster.pause(first, 1.0)
    roster.pause(second, 1.0)
    assert roster.waiting.members == [first] and list(roster.held) == ["b"]
    roster.resume(second, 1.0)
    assert list(roster.held) == ["b"], "it is not its turn"
    roster.hold_all_but(None, 2.0)
    assert list(roster.held) == ["a"] and roster.waiting.members == [second]


def test_the_end_tells_how_it_was_for_the_reader_and_teaches_lengths():
    owner = parts()
    told = []
    owner.ledger.predictor.finished = lambda request, generated: told.append((request.id, generated))
    for id, reason in (("a", FinishReason.LENGTH), ("b", FinishReason.CANCELLED)):
        sequence = owner.running(id, qoe=QoeTarget(2.0, 1.0))
        sequence.token_ids.append(5)
        owner.ledger.deliver([sequence.row], 4.0)
        owner.roster.finish(sequence, reason)
        assert sequence.qoe == 0.5 and sequence.row is None
    assert told == [("a", 1)], "what a reader broke off says nothing about lengths"


def test_the_pages_of_one_that_ends_while_it_waits_are_free_at_once():
    owner = parts()
    sequence, taker = owner.running("a"), owner.running("b")
    owner.roster.preempt(sequence, taker, 1.0)
    owner.roster.finish(sequence, FinishReason.CANCELLED)
    assert sequence.pages == [] and not owner.stowage.parked and owner.pool.live == 1
    assert not owner.roster.waiting


def test_recall_forgets_steps_in_flight_and_all_content():
    owner = parts(slots=3, host_pages=9)
    runs, leaves, rests = owner.running("a"), owner.running("b"), owner.parked("c")
    for sequence in (runs, leaves):
        sequence.in_flight, sequence.known = 2, 5
    owner.roster.preempt(leaves, runs, 1.0)
    owner.roster.recall(4.0)
    assert owner.pool.live == 0 and owner.pool.free == owner.pool.total
    assert set(owner.roster.waiting.members) == {runs, leaves} and list(owner.roster.held.values()) == [rests]
    assert [each.computed for each in (runs, leaves, rests)] == [0, 0, 0] and runs.known == leaves.known == 3
    assert sorted(owner.roster.free_slots) == [0, 1, 2] and not owner.roster.leaving
    columns = owner.ledger.columns(owner.roster.waiting.rows, 4.0)
    assert columns.to_compute.tolist() == [3, 3]
