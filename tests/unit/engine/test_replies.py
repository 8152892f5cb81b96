from __future__ import annotations

import pytest

from andes_jax.engine.replies import EventBatch, Reply
from andes_jax.events import TokenLogprobs, Usage
from andes_jax.request import FinishReason, Refusal
from andes_jax.scheduling.scheduler import Advance
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import letters, make_request, text_of


def reply(**options) -> tuple[Reply, Sequence]:
    request = make_request("a", [1, 2], 9, **options)
    made, sequence = Reply(request, print, letters()), Sequence(request, 1)
    made.sequence = sequence
    return made, sequence


def test_text_ids_and_logprobs_go_together():
    made, sequence = reply()
    logprobs = (TokenLogprobs(5, -1.0),)
    event = made.event(Advance(sequence, (5,), None, logprobs), 3.0)
    assert (event.text, event.token_ids, event.logprobs, event.emitted_s) == (text_of([5]), (5,), logprobs, 3.0)
    assert event.finish is None and event.usage is None


def test_an_id_that_stops_counts_but_shows_nothing():
    made, sequence = reply()
    made.event(Advance(sequence, (5,)), 0.0)
    event = made.event(Advance(sequence, (6,), FinishReason.STOP), 0.0)
    assert (event.text, event.token_ids, event.finish) == ("", (6,), FinishReason.STOP)
    usage = made.usage()
    assert (usage.prompt_tokens, usage.completion_tokens) == (2, 2) and event.usage is None, "it is not over yet"


def test_a_stop_string_ends_the_reply_where_it_begins():
    made, sequence = reply(stop=(text_of([7, 8]),))
    texts = [made.event(Advance(sequence, (token,)), 0.0).text for token in (6, 7)]
    assert texts == [text_of([6]), ""], "what may begin a stop string is held back"
    event = made.event(Advance(sequence, (8, 9), None, (TokenLogprobs(8, -1.0), TokenLogprobs(9, -1.0))), 0.0)
    assert (event.text, event.finish, event.token_ids) == ("", FinishReason.STOP, (8,))
    assert len(event.logprobs) == 1 and made.usage().completion_tokens == 3


def test_a_stop_string_completed_by_the_last_token_is_a_stop():
    made, sequence = reply(stop=(text_of([7]),))
    assert made.event(Advance(sequence, (7,), FinishReason.LENGTH), 0.0).finish is FinishReason.STOP


def test_held_text_is_told_at_the_end():
    made, sequence = reply(stop=(text_of([7, 8]),))
    assert made.event(Advance(sequence, (7,)), 0.0).text == ""
    event = made.event(Advance(sequence, (1,), FinishReason.LENGTH), 0.0)
    assert (event.text, event.finish) == (text_of([7, 1]), FinishReason.LENGTH)


def test_an_early_end_tells_what_was_spent():
    made, sequence = reply()
    sequence.first_cached = 1
    made.event(Advance(sequence, (5,)), 0.0)
    event = made.end(FinishReason.CANCELLED, 2.0)
    assert event.finish is FinishReason.CANCELLED
    assert (event.usage.completion_tokens, event.usage.cached_tokens) == (1, 1)


def test_the_usage_tells_of_waits_preemptions_and_the_readers_lot():
    made, sequence = reply(arrived_s=2.0)
    assert made.usage() == Usage(2, 0, 0, None, None, 0), "it never ran"
    sequence.first_run_s, sequence.preempt_count, sequence.yields, sequence.qoe = 2.5, 1, 2, 0.75
    sequence.finish = FinishReason.LENGTH
    assert made.usage() == Usage(2, 0, 0, 0.75, 0.5, 3)
    sequence.first_run_s = 1.5  # the caller's clock was ahead
    assert made.usage().waited_s == 0.0


def test_a_reader_who_left_says_nothing_of_quality():
    made, sequence = reply()
    sequence.qoe, sequence.finish = 0.75, FinishReason.CANCELLED
    assert made.usage().qoe is None


def test_one_that_the_scheduler_never_saw_has_a_usage():
    made, _ = reply()
    made.sequence = None
    assert made.end(FinishReason.FAILED, 1.0).usage == Usage(2, 0)


def test_stop_strings_that_cannot_be_sought_are_refused():
    with pytest.raises(Refusal) as refused:
        Reply(make_request("a", [1], 1, stop=("",)), print, letters())
    assert refused.value.param == "stop"


def test_events_are_grouped_by_sink():
    made, sequence = reply()
    batch = EventBatch()
    first, second = made.event(Advance(sequence, (1,)), 0.0), made.event(Advance(sequence, (2,)), 0.0)
    batch.add(print, first)
    batch.add(repr, first)
    batch.add(print, second)
    assert batch.by_sink == {print: [first, second], repr: [first]}
