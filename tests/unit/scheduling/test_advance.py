from __future__ import annotations

import numpy as np

from andes_jax.events import TokenLogprobs
from andes_jax.request import FinishReason, QoeTarget
from andes_jax.scheduling.advance import Advance, Advancer
from andes_jax.scheduling.plan import Slice, StepResult
from andes_jax.scheduling.sequence import Sequence, State
from tests.unit.scheduling.parts import Parts, parts

READER = QoeTarget(1.0, 1.0)


def committed(
    owner: Parts, *rows: tuple[Sequence, int | None], now: float = 2.0, **result
) -> tuple[list[Advance], int]:
    """Take in, at 2.0, a step in which each of these drew that token; None: its slice did not sample."""
    sequences, slices = [], []
    for sequence, token in rows:
        sequence.in_flight += 1
        sequence.known += token is not None
        sequences.append(sequence)
        slices.append(Slice(sequence.slot, sequence.computed, 1, None, sequence.table, token is not None))
    ids = np.array([token or 0 for _, token in rows], np.int32)
    told = StepResult(1, ids, **{"finite": np.ones(len(rows), bool), **result})
    return Advancer(owner.roster, owner.paging).advance(sequences, slices, told, owner.ledger, 2.0)


def test_a_drawn_token_is_appended_delivered_and_told():
    owner = parts()
    drew, reads_on = owner.running("a", qoe=READER), owner.running("b", qoe=READER)
    advances, drawn = committed(owner, (drew, 42), (reads_on, None))
    assert drawn == 1 and advances == [Advance(drew, (42,))]
    assert drew.output_ids == (42,) and reads_on.output_ids == ()
    assert owner.ledger.slack_s(drew, 2.0) == 1.0 and owner.ledger.slack_s(reads_on, 2.0) == -1.0
    assert drew.in_flight == reads_on.in_flight == 0 and drew.state is State.RUNNING


def test_the_last_token_ends_with_length_and_a_stop_id_with_stop():
    owner = parts()
    long, stops = owner.running("a"), owner.running("b", stop_ids=(42,))
    long.token_ids += [1] * 19
    long.known += 19
    advances, _ = committed(owner, (long, 42), (stops, 42))
    assert [advance.finish for advance in advances] == [FinishReason.LENGTH, FinishReason.STOP]
    assert long.slot is stops.slot is None and owner.pool.live == 0 and not owner.roster.live


def test_what_ended_meanwhile_gets_nothing_and_frees_its_place():
    owner = parts()
    sequence = owner.running("a")
    sequence.in_flight = 1
    owner.roster.finish(sequence, FinishReason.CANCELLED)
    sequence.in_flight = 0
    advances, drawn = committed(owner, (sequence, 42))
    assert advances == [] and drawn == 0 and sequence.output_ids == ()
    assert sequence.slot is None and owner.pool.live == 0 and sorted(owner.roster.free_slots) == [0, 1]


def test_one_displaced_meanwhile_keeps_its_token_and_waits():
    owner = parts()
    sequence, taker = owner.running("a"), owner.running("b")
    sequence.in_flight = 1
    owner.roster.preempt(sequence, taker, 1.0)
    sequence.in_flight = 0
    advances, _ = committed(owner, (sequence, 42))
    assert advances == [Advance(sequence, (42,))]
    assert sequence.slot is None and owner.roster.waiting.members == [sequence] and sequence.computed == 3


def test_one_with_another_step_in_flight_stays():
    owner = parts()
    sequence, taker = owner.running("a"), owner.running("b")
    sequence.in_flight = 1
    owner.roster.preempt(sequence, taker, 1.0)
    committed(owner, (sequence, 42))
    assert sequence.in_flight == 1 and sequence.slot is not None and not owner.roster.waiting


def test_a_row_that_is_not_finite_fails_alone_and_its_reader_gets_no_token():
    owner = parts(prefix=True)
    bad, good = owner.running("a", qoe=READER, prompt=8), owner.running("b", qoe=READER)
    owner.paging.publish(bad)
    advances, drawn = committed(owner, (bad, 42), (good, 43), finite=np.array([False, True]))
    assert drawn == 1 and [advance.finish for advance in advances] == [FinishReason.FAILED, None]
    assert "not finite" in advances[0].message and advances[1].token_ids == (43,)
    assert bad.qoe == 0.0 and owner.pool.cached == 0, "nobody reuses what it computed"


def test_logprobs_go_to_those_who_asked():
    owner = parts()
    asked, other = owner.running("a", top_logprobs=0), owner.running("b")
    found = {0: TokenLogprobs(42, -1.0), 1: TokenLogprobs(43, -2.0)}
    advances, _ = committed(owner, (asked, 42), (other, 43), logprobs=found)
    assert [advance.logprobs for advance in advances] == [(found[0],), ()]


def test_full_pages_of_known_tokens_can_be_found_by_others():
    owner = parts(prefix=True)
    sequence = owner.running("a", prompt=4)
    assert owner.paging.extend(sequence, 12)
    committed(owner, (sequence, 42))
    assert sequence.published == 1
    for token in (43, 44, 45):
        sequence.computed += 1
        committed(owner, (sequence, token))
    assert sequence.published == 1, "the page's last token is known but not computed"
    sequence.computed += 1
    committed(owner, (sequence, 46))
    assert sequence.published == 2
