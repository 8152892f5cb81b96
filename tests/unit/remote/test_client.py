"""A remote engine keeps the contract of one in the process, through every end of a connection."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from andes_jax.engine.contract import EngineAway
from andes_jax.remote.client import EngineMismatch, RemoteEngine
from andes_jax.remote.link import LinkSettings
from andes_jax.request import FinishReason, QoeTarget, Refusal, Tier
from tests.fakes import Inbox
from tests.server.waiting import wait_for
from tests.unit.remote.parts import DESCRIPTION, fake_engine, free_address, front_end, request, served


def endless(name: str):
    return request(name, 10**6)


def test_a_reply_is_the_same_as_in_the_process():
    here, there = Inbox(), Inbox()
    asked = [request("a", 30), request("b", 5, top_logprobs=2), request("c", 4, prompt_logprobs=True, seed=3)]
    with served() as server, front_end(server.address) as remote:
        remote.submit_all(asked, there).result(5)
        assert wait_for(lambda: all(there.finishes(name) for name in "abc"))
        assert [each.id for each in server.engine.submitted] == ["a", "b", "c"] and server.engine.submitted == asked
        server.engine.submit_all(asked, here)
        assert wait_for(lambda: all(here.finishes(name) for name in "abc"))
    for name in "abc":
        assert there.text(name) == here.text(name) and there.ids(name) == here.ids(name)
        assert there.finishes(name) == here.finishes(name)
        assert [event._replace(emitted_s=0) for event in there.events[name]] == [
            event._replace(emitted_s=0) for event in here.events[name]
        ]


def test_each_step_is_one_call_of_the_sink():
    inbox = Inbox()
    engine = fake_engine()
    engine.hold()
    with served(engine) as server, front_end(server.address) as remote:
        remote.submit_all([request(name, 4) for name in "abc"], inbox).result(5)
        engine.release()
        assert wait_for(lambda: all(inbox.finishes(name) for name in "abc"))
    assert [len(batch) for batch in inbox.batches] == [3, 3, 3, 3]


def test_state_room_and_limits_are_the_engines():
    with served(fake_engine(max_waiting=5)) as server, front_end(server.address) as remote:
        assert (remote.state, remote.room) == ("ready", 5)
        assert remote.limits.max_model_len == server.engine.limits.max_model_len
        remote.submit_all([endless("a"), endless("b")], Inbox()).result(5)
        assert remote.room == 3
        server.engine.drain()
        server.do(server.service.tell_state)
        assert wait_for(lambda: remote.state == "draining")


def test_the_engines_refusal_comes_back():
    with served(fake_engine(max_waiting=1)) as server, front_end(server.address) as remote:
        with pytest.raises(Refusal) as raised:
            remote.submit_all([request("a"), request("b")], Inbox()).result(5)
        assert raised.value.code == "engine_overloaded" and server.engine.live == []
        inbox = Inbox()
        remote.submit_all([request("a")], inbox).result(5)  # the id is free
        assert wait_for(lambda: inbox.finishes("a"))
        with pytest.raises(Refusal, match="in use"):
            remote.submit_all([request("c"), request("c")], Inbox())


def test_cancel_pause_and_resume_reach_the_engine():
    inbox = Inbox()
    with served(fake_engine(gap_s=0.001)) as server, front_end(server.address) as remote:
        remote.submit_all([endless("a")], inbox).result(5)
        for ask, told in ((remote.pause, "pause"), (remote.resume, "resume")):
            ask("a")
            assert wait_for(lambda told=told: (told, "a") in server.engine.told)
        remote.cancel("nobody")
        remote.cancel("a")
        assert wait_for(lambda: inbox.finishes("a") == [FinishReason.CANCELLED])
        assert server.engine.cancelled == ["a"]


def test_when_a_front_end_leaves_its_requests_are_cancelled_and_no_others():
    with served(fake_engine(gap_s=0.001)) as server, front_end(server.address) as stays:
        with front_end(server.address) as leaves:
            stays.submit_all([endless("a")], Inbox()).result(5)
            inbox = Inbox()
            leaves.submit_all([endless("b"), endless("c")], inbox).result(5)
            assert leaves.stop(0) is False
            assert inbox.finishes("b") == inbox.finishes("c") == [FinishReason.FAILED]
        assert wait_for(lambda: server.engine.live == ["a"])
        assert leaves.state == "stopped"
        with pytest.raises(Refusal, match="shutting down"):
            leaves.submit_all([request("d")], Inbox())
        assert stays.state == "ready"


def test_when_the_engine_goes_every_request_fails_once_and_it_is_found_again():
    inbox = Inbox()
    address = free_address()
    with served(fake_engine(gap_s=0.001), address) as server, front_end(address) as remote:
        remote.submit_all([endless("a"), endless("b")], inbox).result(5)
        assert wait_for(lambda: inbox.text("b"))
        server.end()
        assert wait_for(lambda: remote.state == "failed")
        assert inbox.finishes("a") == inbox.finishes("b") == [FinishReason.FAILED]
        assert inbox.events["a"][-1].message == "the engine is gone"
        assert remote.room == 0
        with pytest.raises(Refusal) as raised:
            remote.submit_all([request("c")], inbox)
        assert raised.value.code == "engine_failed"
        with pytest.raises(EngineAway):
            remote.statistics()
        with pytest.raises(EngineAway):
            remote.explain("a")
        remote.cancel("a")
        with served(address=address):
            assert wait_for(lambda: remote.state == "ready", 10)
            remote.submit_all([request("d", 3)], inbox).result(5)
            assert wait_for(lambda: inbox.finishes("d") == [FinishReason.LENGTH])
    assert inbox.finishes("a") == [FinishReason.FAILED]


class Mute:
    """An engine that is asked and never gets to answer."""

    def __init__(self, engine) -> None:
        self._engine = engine
        self.asked = threading.Event()
        self.go_on = threading.Event()

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    def submit_all(self, requests, sink) -> None:
        self.asked.set()
        self.go_on.wait(10)
        raise Refusal("too late", "engine_failed")


def test_a_request_without_an_answer_is_refused_when_the_connection_ends():
    inbox = Inbox()
    engine = Mute(fake_engine())
    with served(engine) as server, front_end(server.address) as remote:
        answer = remote.submit_all([request("a")], inbox)
        assert engine.asked.wait(5) and not answer.done()
        assert remote.room == engine.room - 1
        remote.stop(0)
        with pytest.raises(Refusal) as raised:
            answer.result(0)
        assert raised.value.code == "engine_failed" and inbox.events == {}
        engine.go_on.set()


def test_statistics_and_explanations_come_from_the_engine():
    engine = fake_engine()
    engine.explained["a"] = {"id": "a", "events": [{"t": 1.5}]}
    with served(engine) as server, front_end(server.address) as remote:
        inbox = Inbox()
        remote.submit_all([request("a", 5)], inbox).result(5)
        assert wait_for(lambda: inbox.finishes("a"))
        figures = remote.statistics()
        assert figures.generated_tokens == 5 and figures.running[Tier.STREAMING] == 0
        assert figures.finished == engine.statistics().finished and remote.compiles_after_ready() == 0
        assert remote.explain("a") == engine.explained["a"] and remote.explain("b") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [({"model": "other"}, "has model 'fake/bytes'"), ({"identity": "x"}, "vocabulary"), ({"version": "2"}, "version")],
)
def test_another_model_or_release_is_refused_with_both_names(change, words):
    with served() as server, front_end(server.address, replace(DESCRIPTION, **change), connected=False) as remote:
        with pytest.raises(EngineMismatch, match=words):
            remote.wait_connected()
        assert remote.state == "starting"


def test_a_front_end_may_come_before_its_engine():
    address = free_address()
    heard: list[str] = []
    with front_end(address, connected=False) as remote:
        assert (remote.state, remote.room) == ("starting", 0)
        with pytest.raises(EngineAway):
            _ = remote.limits
        waiter = threading.Thread(target=lambda: remote.wait_connected(heard.append, 0.05))
        waiter.start()
        assert wait_for(lambda: any("refused" in why for why in heard))
        with served(address=address):
            waiter.join(10)
            assert not waiter.is_alive()
            assert remote.wait_connected().expectations == {Tier.REALTIME: QoeTarget(1.0, 5.0)}


def test_a_wrong_key_is_said_at_once():
    with served(api_keys=("right",)) as server:
        refused = pytest.raises(EngineMismatch, match="Incorrect API key")
        with front_end(server.address, connected=False, key="wrong") as remote, refused:
            remote.wait_connected()
        with front_end(server.address, key="right") as remote:
            assert remote.statistics().generated_tokens == 0


class Shifted:
    def now(self) -> float:
        return time.monotonic() + 1000.0


def test_times_are_on_the_engines_clock():
    with served(clock=Shifted()) as server, front_end(server.address) as remote:
        assert remote.clock.now() - time.monotonic() == pytest.approx(1000.0, abs=0.1)


def test_stop_without_a_connection_ends_at_once():
    remote = RemoteEngine(LinkSettings(free_address()), DESCRIPTION)
    remote.start()
    assert remote.stop(5) is True and remote.state == "stopped"


def test_a_drained_front_end_waits_for_its_requests():
    inbox = Inbox()
    with served(fake_engine(gap_s=0.005)) as server, front_end(server.address) as remote:
        remote.submit_all([request("a", 20)], inbox).result(5)
        assert remote.stop(5) is True
        assert inbox.finishes("a") == [FinishReason.LENGTH] and server.engine.cancelled == []


def test_two_engines_cannot_have_one_address():
    from andes_jax.remote.listener import Listener, ListenError, ListenSettings

    async def listen(address: str) -> None:
        await Listener(ListenSettings(address)).start([])

    import asyncio

    with served() as server, pytest.raises(ListenError, match="cannot serve gRPC on 127.0.0.1"):
        asyncio.run(listen(server.address))
