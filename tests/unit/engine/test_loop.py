from __future__ import annotations

import random
import threading

import pytest

from andes_jax.request import FinishReason, Refusal, Tier
from tests.fakes import Inbox, expected_ids, make_request, text_of

CANCELLED, FAILED, LENGTH, STOP = (
    FinishReason.CANCELLED, FinishReason.FAILED, FinishReason.LENGTH, FinishReason.STOP
)  # fmt: skip


class Gate:
    """Holds the runner before its `at`-th plan until opened."""

    def __init__(self, runner, at: int) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        dispatch, seen = runner.dispatch, []

        def held(plan):
            seen.append(plan)
            if len(seen) == at:
                self.reached.set()
                assert self.opened.wait(20)
            dispatch(plan)

        runner.dispatch = held


def test_replies_are_told_as_text_and_ids_with_one_finish(serve):
    served = serve(policy="three_tier", pages=40, slots=3)
    requests = [make_request(f"r{index}", [index] * (1 + index), 5 + index, tier=Tier(index % 3)) for index in range(9)]
    for request in requests:
        served.engine.submit(request, served.inbox)
    served.engine.start()
    assert served.engine.stop(20)
    for request in requests:
        ids = expected_ids(request)
        assert served.inbox.ids(request.id) == ids
        assert served.inbox.text(request.id) == text_of(ids)
        assert served.inbox.finishes(request.id) == [LENGTH]
        usage = served.inbox.events[request.id][-1].usage
        assert (usage.prompt_tokens, usage.completion_tokens) == (len(request.prompt_ids), len(ids))
    served.assert_at_rest()
    statistics = served.engine.statistics()
    assert statistics.finished[LENGTH] == 9 and sum(statistics.finished.values()) == 9
    assert statistics.generated_tokens == sum(len(expected_ids(request)) for request in requests)
    assert statistics.prompt_tokens == sum(len(request.prompt_ids) for request in requests)


def test_one_batch_a_step_for_each_sink(serve):
    served, other = serve(), Inbox()
    for index in range(4):
        served.engine.submit(make_request(f"r{index}", [index], 6), served.inbox if index < 3 else other)
    served.engine.start()
    assert served.engine.stop(20)
    assert [len(batch) for batch in served.inbox.batches] == [3] * 6
    assert [len(batch) for batch in other.batches] == [1] * 6


def test_stop_strings_end_text_usage_and_work(serve):
    served = serve()
    free = expected_ids(make_request("a", [1, 2, 3], 40))
    stop = text_of(free[9:11])
    assert text_of(free).index(stop) == 9
    served.engine.submit(make_request("a", [1, 2, 3], 40, stop=(stop,)), served.inbox)
    served.engine.start()
    assert served.engine.stop(20)
    assert served.inbox.text("a") == text_of(free[:9])
    assert served.inbox.finishes("a") == [STOP]
    assert served.inbox.events["a"][-1].usage.completion_tokens == 11
    assert len(served.runner.plans) <= 13
    served.assert_at_rest()


def test_requests_for_nothing_end_at_once(serve):
    served = serve()
    served.engine.submit(make_request("a", [1, 2, 3], 0), served.inbox)
    served.engine.start()
    assert served.engine.stop(20)
    assert served.inbox.finishes("a") == [LENGTH] and served.runner.plans == []


@pytest.mark.parametrize("at", [1, 2, 3, 8])
def test_cancelling_in_any_state_ends_with_one_event(serve, at):
    """Before the first step, during the prompt, while drawing; of the running and of the waiting."""
    served = serve(slots=1, step_tokens=8, prefill_chunk=8)
    gate = Gate(served.runner, at)
    served.engine.submit(make_request("running", range(20), 30), served.inbox)
    served.engine.start()
    assert gate.reached.wait(20)
    served.engine.submit(make_request("waiting", [2], 5), served.inbox)
    served.engine.submit(make_request("other", [3], 5), served.inbox)
    for request_id in ("waiting", "running", "running", "unknown"):
        served.engine.cancel(request_id)
    gate.opened.set()
    assert served.engine.stop(20)
    assert served.inbox.finishes("running") == served.inbox.finishes("waiting") == [CANCELLED]
    assert served.inbox.ids("other") == expected_ids(make_request("other", [3], 5))
    served.engine.cancel("other")
    assert served.inbox.finishes("other") == [LENGTH] and set(served.inbox.events) == {"running", "waiting", "other"}
    served.assert_at_rest()


def test_an_id_can_be_used_again_and_an_old_cancel_does_not_reach_it(serve):
    served = serve()
    request = make_request("a", [1], 3)
    sink, again = served.used_again(request)
    served.engine.submit(request, sink)
    with pytest.raises(Refusal, match="in use"):
        served.engine.submit(request, sink)
    served.when_collected(3, lambda: served.engine.cancel("a"))
    served.engine.start()
    assert again.wait(20) and served.engine.stop(20)
    assert served.inbox.finishes("a") == [LENGTH, LENGTH]
    assert served.inbox.ids("a") == expected_ids(request) * 2


def test_too_many_are_refused_and_there_is_room_again_later(serve):
    served = serve(max_waiting=2, slots=1)
    for index in range(3):
        served.engine.submit(make_request(f"r{index}", [1], 2), served.inbox)
    with pytest.raises(Refusal) as refused:
        served.engine.submit(make_request("more", [1], 2), served.inbox)
    assert refused.value.code == "engine_overloaded"
    with pytest.raises(Refusal) as refused:
        served.engine.submit(make_request("long", [1] * 70, 2), served.inbox)
    assert refused.value.code == "context_length_exceeded"
    served.engine.cancel("r1")
    served.engine.start()
    assert served.engine.stop(20)
    assert set(served.inbox.events) == {"r0", "r1", "r2"}


def test_all_of_several_are_accepted_or_none(serve):
    served = serve(max_waiting=2, slots=1)
    engine = served.engine
    assert engine.limits.max_live == engine.room == 3
    first, *rest = (make_request(f"r{index}", [index], 2) for index in range(4))
    engine.submit_all([first], served.inbox)
    refused = [
        (rest, "engine_overloaded"),
        ([*rest, make_request("r4", [4], 2)], "too_many_requests"),
        ([rest[0], make_request("long", [1] * 70, 2)], "context_length_exceeded"),
        ([rest[0], first], "duplicate_request"),
        ([rest[0], rest[0]], "duplicate_request"),
        ([rest[0], make_request("stop", [1], 2, stop=("",))], "invalid_value"),
    ]
    for requests, code in refused:
        with pytest.raises(Refusal) as refusal:
            engine.submit_all(requests, served.inbox)
        assert refusal.value.code == code and engine.room == 2
    engine.submit_all(rest[:2], served.inbox)
    assert engine.room == 0
    engine.start()
    assert engine.stop(20) and engine.room == 3
    assert {name: served.inbox.finishes(name) for name in served.inbox.events} == dict.fromkeys(
        ("r0", "r1", "r2"), [LENGTH]
    )
    served.assert_at_rest()


def test_streams_opened_and_dropped_at_random_leave_nothing_behind(serve):
    served = serve(policy="three_tier", pages=30, slots=4, max_waiting=400)
    rng, wanted, told = random.Random(7), {}, threading.Event()

    def sink(events):
        served.inbox(events)
        for event in events:
            if event.finish is None and len(served.inbox.ids(event.request_id)) >= wanted[event.request_id]:
                served.engine.cancel(event.request_id)
        told.set()

    served.engine.start()
    requests = []
    for index in range(300):
        prompt = [rng.randrange(3) for _ in range(rng.randrange(1, 20))]
        request = make_request(f"r{index}", prompt, rng.randrange(0, 30), tier=Tier(rng.randrange(3)))
        wanted[request.id] = rng.randrange(1, 40)
        requests.append(request)
        served.engine.submit(request, sink)
        if rng.random() < 0.3:
            served.engine.cancel(rng.choice(requests).id)
        if rng.random() < 0.1:
            told.clear()
            told.wait(0.05)
    assert served.engine.stop(60)
    for request in requests:
        assert len(served.inbox.finishes(request.id)) == 1
        assert served.inbox.events[request.id][-1].finish is not None, "nothing follows the finish"
        ids, expected = served.inbox.ids(request.id), expected_ids(request)
        assert ids == expected[: len(ids)]
        if served.inbox.finishes(request.id) == [LENGTH]:
            assert ids == expected
    served.assert_at_rest()
    served.pool.clear_cache()
    assert served.pool.free == served.pool.total
    assert sum(served.engine.statistics().finished.values()) == 300
