"""Draining, stopping, and owners or parts that misbehave: every stream still ends once."""

from __future__ import annotations

import threading

import pytest

from andes_jax.engine import loop
from andes_jax.request import FinishReason, Refusal
from andes_jax.text.reply import ReplyText
from tests.fakes import Inbox, expected_ids, make_request

CANCELLED, FAILED, LENGTH = FinishReason.CANCELLED, FinishReason.FAILED, FinishReason.LENGTH


def test_life_from_start_to_stop(serve):
    served = serve(slots=3)
    engine = served.engine
    assert engine.state == "starting"
    assert (engine.limits.max_model_len, engine.limits.max_sequences, engine.limits.pool_tokens) == (64, 3, 63 * 4)
    engine.start()
    assert engine.state == "ready"
    with pytest.raises(RuntimeError, match="ready"):
        engine.start()
    engine.submit(make_request("a", [1], 30), served.inbox)
    engine.drain()
    assert engine.state == "draining"
    with pytest.raises(Refusal) as refused:
        engine.submit(make_request("b", [1], 30), served.inbox)
    assert refused.value.code == "shutting_down"
    assert engine.stop(20) and engine.state == "stopped"
    assert served.inbox.ids("a") == expected_ids(make_request("a", [1], 30))
    assert engine.stop(0.0), "stopping twice does no harm"


def test_what_is_not_done_in_time_ends_with_the_reason(serve):
    served = serve(slots=1)
    hold, reached = threading.Event(), threading.Event()
    collect = served.runner.collect

    def slow():
        if len(served.runner.plans) > 4:
            reached.set()
            assert hold.wait(20)
        return collect()

    served.runner.collect = slow
    for index in range(3):
        served.engine.submit(make_request(f"r{index}", [1], 50), served.inbox)
    served.engine.start()
    assert reached.wait(20)
    threading.Timer(0.2, hold.set).start()
    assert not served.engine.stop(0.01)
    for index in range(3):
        assert served.inbox.finishes(f"r{index}") == [FAILED]
        assert served.inbox.events[f"r{index}"][-1].message == "server is shutting down"
    served.assert_at_rest()


def test_an_engine_never_started_ends_what_it_accepted(serve):
    served = serve()
    served.engine.submit(make_request("a", [1], 5), served.inbox)
    assert not served.engine.stop(5.0)
    assert served.inbox.finishes("a") == [FAILED] and served.engine.state == "stopped"
    with pytest.raises(RuntimeError, match="stopped"):
        served.engine.start()


def test_a_thread_stuck_in_a_step_does_not_keep_its_streams_open(serve, monkeypatch):
    monkeypatch.setattr(loop, "JOIN_S", 0.05)
    served = serve()
    hold, reached = threading.Event(), threading.Event()
    collect = served.runner.collect

    def stuck():
        reached.set()
        assert hold.wait(20)
        return collect()

    served.runner.collect = stuck
    served.engine.submit(make_request("a", [1], 50), served.inbox)
    served.engine.start()
    assert reached.wait(20)
    assert not served.engine.stop(0.01)
    assert served.inbox.finishes("a") == [FAILED]
    hold.set()
    served.engine._thread.join(20)
    assert served.inbox.finishes("a") == [FAILED], "the thread that comes back says nothing more"


def test_a_sink_that_raises_loses_its_own_requests_alone(serve):
    served, calls = serve(), []

    def broken(events):
        calls.append(events)
        raise RuntimeError("the loop is closed")

    served.engine.submit(make_request("broken", [1], 40), broken)
    served.engine.submit(make_request("good", [2], 20), served.inbox)
    served.engine.start()
    assert served.engine.stop(20)
    assert len(calls) == 1
    assert served.inbox.ids("good") == expected_ids(make_request("good", [2], 20))
    statistics = served.engine.statistics()
    assert (statistics.sink_failures, statistics.finished[CANCELLED], statistics.finished[LENGTH]) == (1, 1, 1)
    served.assert_at_rest()


def test_text_that_cannot_be_made_fails_its_request_alone(serve, monkeypatch):
    served, push = serve(), ReplyText.push
    bad = expected_ids(make_request("bad", [1], 20))[4]
    assert bad not in expected_ids(make_request("good", [2], 20))

    def faulty(self, ids):
        if bad in ids:
            raise UnicodeError("injected")
        return push(self, ids)

    monkeypatch.setattr(ReplyText, "push", faulty)
    served.engine.submit(make_request("bad", [1], 20), served.inbox)
    served.engine.submit(make_request("good", [2], 20), served.inbox)
    served.engine.start()
    assert served.engine.stop(20)
    assert served.inbox.finishes("bad") == [FAILED] and served.inbox.finishes("good") == [LENGTH]
    assert served.inbox.ids("good") == expected_ids(make_request("good", [2], 20))
    served.assert_at_rest()


@pytest.mark.parametrize("part", ["plan", "commit"])
def test_a_dead_thread_ends_every_stream(serve, monkeypatch, part):
    served = serve(slots=2)
    real, calls = getattr(served.rig.scheduler, part), []

    def dies(*arguments):
        calls.append(part)
        if len(calls) == 4:
            raise ZeroDivisionError("injected")
        return real(*arguments)

    monkeypatch.setattr(served.rig.scheduler, part, dies)
    others = Inbox()
    for index in range(5):
        served.engine.submit(make_request(f"r{index}", [1], 50), served.inbox if index % 2 else others)
    served.engine.start()
    served.engine.stop(20)
    assert served.engine.state == "failed"
    for index in range(5):
        assert (served.inbox if index % 2 else others).finishes(f"r{index}") == [FAILED]
    with pytest.raises(Refusal) as refused:
        served.engine.submit(make_request("more", [1], 5), served.inbox)
    assert refused.value.code == "engine_failed"


def test_work_that_cannot_be_planned_ends_rather_than_hangs(serve, monkeypatch):
    served = serve()
    monkeypatch.setattr(served.rig.scheduler.admitter, "next", lambda over=None: None)
    served.engine.submit(make_request("a", [1], 5), served.inbox)
    served.engine.submit(make_request("b", [1], 5), served.inbox)
    served.engine.start()
    assert served.engine.stop(20)
    assert served.inbox.finishes("a") == served.inbox.finishes("b") == [FAILED]
