"""Pausing and explaining from any thread."""

from __future__ import annotations

import random
import threading

import pytest

from andes_jax.request import FinishReason, QoeTarget, Tier
from tests.fakes import expected_ids, make_request
from tests.unit.scheduling.parts import COPIES_ARE_CHEAP

CANCELLED, FAILED, LENGTH = FinishReason.CANCELLED, FinishReason.FAILED, FinishReason.LENGTH


class Counted:
    """A sink that tells when some request has had so many tokens, or has ended."""

    def __init__(self, inbox, request_id: str, tokens: int) -> None:
        self._inbox, self._id, self._tokens = inbox, request_id, tokens
        self.there, self.ended = threading.Event(), threading.Event()

    def __call__(self, events) -> None:
        self._inbox(events)
        if len(self._inbox.ids(self._id)) >= self._tokens:
            self.there.set()
        if self._inbox.finishes(self._id):
            self.ended.set()


def paused_after_some_tokens(serve, **options):
    """An engine whose request `a` rests, and its sink."""
    served = serve(**options)
    sink = Counted(served.inbox, "a", 3)
    collect = served.runner.collect

    def paced():
        result = collect()
        if len(served.inbox.ids("a")) >= 3:
            served.engine.pause("a")
        return result

    served.runner.collect = paced
    served.engine.submit(make_request("a", [1, 2, 3], 30), sink)
    served.engine.start()
    assert sink.there.wait(20)
    served.engine.submit(make_request("b", [4], 10), served.inbox)
    while not (served.inbox.finishes("b") and served.engine.statistics().paused):  # the test's time limit ends this
        threading.Event().wait(0.002)
    served.runner.collect = collect
    return served, sink


def test_a_paused_request_rests_while_others_are_served_and_goes_on_when_resumed(serve):
    served, sink = paused_after_some_tokens(serve)
    got = len(served.inbox.ids("a"))
    assert 3 <= got <= 8 and not served.inbox.finishes("a")
    assert served.inbox.ids("b") == expected_ids(make_request("b", [4], 10))
    statistics = served.engine.statistics()
    assert statistics.paused == 1 and sum(statistics.waiting.values()) == 1 and sum(statistics.running.values()) == 0
    served.engine.resume("a")
    assert sink.ended.wait(20)
    assert served.inbox.ids("a") == expected_ids(make_request("a", [1, 2, 3], 30))
    assert served.engine.stop(20)
    served.assert_at_rest()


def test_an_engine_at_rest_with_paused_requests_does_not_spin(serve):
    served, _ = paused_after_some_tokens(serve)
    planned = []
    real = served.rig.scheduler.plan
    served.rig.scheduler.plan = lambda now: planned.append(now) or real(now)
    steps = served.engine.statistics().steps
    threading.Event().wait(0.1)
    assert len(planned) <= 1 and served.engine.statistics().steps <= steps + 1


def test_paused_requests_can_be_cancelled_and_end_with_the_engine(serve):
    served, sink = paused_after_some_tokens(serve)
    served.engine.cancel("a")
    assert sink.ended.wait(20) and served.inbox.finishes("a") == [CANCELLED]
    served.assert_at_rest()
    served, _ = paused_after_some_tokens(serve)
    assert not served.engine.stop(0.05)
    assert served.inbox.finishes("a") == [FAILED]
    served.assert_at_rest()


def test_wishes_for_what_is_not_live_are_ignored(serve):
    served = serve()
    served.engine.pause("nobody")
    served.engine.resume("nobody")
    request = make_request("a", [1], 5)
    served.engine.submit(request, served.inbox)
    served.engine.resume("a")
    served.engine.start()
    assert served.engine.stop(20)
    assert served.inbox.ids("a") == expected_ids(request)
    served.engine.pause("a")
    assert served.engine.explain("nobody") is None


def test_the_end_of_a_paused_request_is_told_at_its_time_even_where_nothing_else_happens(serve):
    served, sink = paused_after_some_tokens(serve)
    threading.Event().wait(0.05)
    asked_s = served.engine._clock.now()
    served.engine.cancel("a")
    assert sink.ended.wait(20) and served.inbox.finishes("a") == [CANCELLED]
    told, arrived_s = served.engine.explain("a")["events"], served.engine._scheduler.journal._ended["a"][0].at_s
    assert [line["event"] for line in told][-2:] == ["paused", "finished"]
    assert told[-1]["at_s"] >= asked_s - arrived_s - 1e-3


def test_the_last_wish_counts(serve):
    served = serve()
    request = make_request("a", [1], 5)
    served.engine.submit(request, served.inbox)
    for _ in range(5):
        served.engine.pause("a")
        served.engine.resume("a")
    served.engine.start()
    assert served.engine.stop(20) and served.inbox.ids("a") == expected_ids(request)


def test_a_pause_is_forgotten_with_its_request(serve):
    """An id used again does not begin paused because of what was wished for the one before."""
    served = serve()
    request = make_request("a", [1], 3)
    sink, again = served.used_again(request)
    served.when_collected(3, lambda: served.engine.pause("a"))
    served.engine.submit(request, sink)
    served.engine.start()
    assert again.wait(20) and served.engine.stop(5)
    assert served.inbox.finishes("a") == [LENGTH, LENGTH]


def test_usage_and_explanation_of_a_served_request(serve):
    served = serve(slots=1)
    now = served.engine._clock.now()
    for id, reader in (("a", QoeTarget(60.0, 0.1)), ("b", None)):
        served.engine.submit(make_request(id, [1, 2], 6, arrived_s=now, qoe=reader), served.inbox)
    served.engine.start()
    assert served.engine.stop(20)
    first, second = (served.inbox.events[id][-1].usage for id in "ab")
    assert first.qoe == 1.0 and second.qoe is None and first.preemptions == second.preemptions == 0
    assert 0 <= first.waited_s < second.waited_s < 20
    told = served.engine.explain("b")
    assert [line["event"] for line in told["events"]] == ["arrived", "admitted", "finished"]
    assert set(told["waits"][0]["for"]) <= {"slots", "nothing"} and "slots" in told["waits"][0]["for"]


@pytest.mark.parametrize("host_pages", [0, 30])
def test_pauses_and_resumes_at_random_lose_nothing(serve, host_pages):
    served = serve(
        policy="three_tier", pages=24, slots=3, max_waiting=400, host_pages=host_pages, times=COPIES_ARE_CHEAP
    )
    rng, requests = random.Random(11), []
    served.engine.start()
    for index in range(150):
        prompt = [rng.randrange(3) for _ in range(rng.randrange(1, 20))]
        request = make_request(f"r{index}", prompt, rng.randrange(1, 30), tier=Tier(rng.randrange(3)))
        requests.append(request)
        served.engine.submit(request, served.inbox)
        for _ in range(3):
            (served.engine.pause if rng.random() < 0.5 else served.engine.resume)(rng.choice(requests).id)
    for request in requests:
        served.engine.resume(request.id)
    assert served.engine.stop(60)
    for request in requests:
        assert served.inbox.finishes(request.id) == [LENGTH]
        assert served.inbox.ids(request.id) == expected_ids(request)
    served.assert_at_rest()
    statistics = served.engine.statistics()
    assert statistics.host_pages_used == 0 and statistics.paused == 0


def test_an_event_for_one_does_not_end_another_that_rests(serve):
    served, sink = paused_after_some_tokens(serve)
    for number in range(5):
        request = make_request(f"c{number}", [number], 3)
        served.engine.submit(request, served.inbox)
        served.engine.pause(request.id)
        served.engine.cancel(request.id)
        while not served.inbox.finishes(request.id):
            threading.Event().wait(0.002)
        served.engine.pause("a")
    assert not served.inbox.finishes("a")
    served.engine.resume("a")
    assert sink.ended.wait(20) and served.inbox.finishes("a") == [LENGTH]
