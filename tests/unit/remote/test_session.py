"""Every request of a connection ends once, whatever comes in which order."""

from __future__ import annotations

import pytest

from andes_jax.clock import VirtualClock
from andes_jax.events import TokenEvent
from andes_jax.remote.codec import pack_refusal, pack_step
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.remote.session import Session
from andes_jax.request import FinishReason, Refusal
from tests.fakes import Inbox
from tests.unit.remote.parts import request


def session(room: int = 10) -> Session:
    made = Session(VirtualClock(5.0))
    made.receive(pb.EngineMessage(room=room), "ready")
    return made


def take(made: Session, number: int, refusal: Refusal | None = None) -> None:
    taken = pb.Taken(number=number, refusal=None if refusal is None else pack_refusal(refusal))
    made.receive(pb.EngineMessage(taken=taken, room=10), "ready")


def step(made: Session, handle: int, finish: FinishReason | None = None) -> None:
    packed = pack_step([TokenEvent("?", 1.0, "x", (1,), finish=finish)], lambda _: handle)
    made.receive(pb.EngineMessage(step=packed, room=10), "ready")


def test_what_is_sent_comes_in_order_and_ends_with_the_session():
    made = session()
    made.submit([request("a")], Inbox())
    for what in ("paused", "resumed", "cancelled"):
        made.wish(what, "a")
    made.wish("cancelled", "unknown")
    made.end("over")
    sent = list(made.outgoing())
    assert [each.WhichOneof("message") for each in sent] == ["submission", "paused", "resumed", "cancelled"]
    assert {handle for each in sent[1:] for handle in getattr(each, each.WhichOneof("message")).handles} == {1}


def test_the_end_fails_what_is_open_and_refuses_what_was_never_answered():
    made, inbox = session(), Inbox()
    taken = made.submit([request("a"), request("b")], inbox)
    take(made, 1)
    step(made, 1, FinishReason.STOP)
    asked = made.submit([request("c")], inbox)
    made.end("the engine is gone")
    made.end("again")
    assert taken.result(0) is None
    with pytest.raises(Refusal, match="gone"):
        asked.result(0)
    assert inbox.finishes("a") == [FinishReason.STOP] and inbox.finishes("c") == []
    assert inbox.finishes("b") == [FinishReason.FAILED] and inbox.events["b"][0].emitted_s == 5.0
    with pytest.raises(Refusal) as raised:
        made.submit([request("d")], inbox)
    assert raised.value.code == "engine_failed"
    take(made, 2)
    step(made, 2)
    assert inbox.finishes("b") == [FinishReason.FAILED] and made.wait_idle(0)


def test_a_refusal_frees_the_ids_and_the_room():
    made, inbox = session(room=3), Inbox()
    answer = made.submit([request("a"), request("b")], inbox)
    assert made.room == 1
    take(made, 1, Refusal("full", "engine_overloaded", "n"))
    with pytest.raises(Refusal) as raised:
        answer.result(0)
    assert (raised.value.code, raised.value.param) == ("engine_overloaded", "n")
    assert made.room == 10 and made.wait_idle(0)
    made.submit([request("a")], inbox)


def test_a_request_that_cannot_be_sent_leaves_nothing_behind():
    made = session()
    with pytest.raises(ValueError):
        made.submit([request("a"), request("b", max_tokens=-1)], Inbox())
    assert made.wait_idle(0) and made.room == 10
    made.submit([request("a")], Inbox())


def test_requests_whose_sink_raises_are_cancelled():
    def breaks(events) -> None:
        raise RuntimeError("broken")

    made = session()
    made.submit([request("a")], breaks)
    take(made, 1)
    step(made, 1)
    made.end("over")
    assert [each.WhichOneof("message") for each in made.outgoing()] == ["submission", "cancelled"]
