"""What a front end may do to an engine's process, and what not."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import grpc
import pytest

from andes_jax.remote import service
from andes_jax.remote.codec import pack_request
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.remote.protocol.andes_pb2_grpc import EngineStub
from tests.server.waiting import wait_for
from tests.unit.remote.parts import fake_engine, request, served


class RawFrontEnd:
    """Says what it is told to, and reads only when asked."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address)
        self._outgoing: queue.SimpleQueue[pb.FrontEndMessage | None] = queue.SimpleQueue()
        self.call = EngineStub(self.channel).Connect(iter(self._outgoing.get, None))

    def say(self, **message) -> None:
        self._outgoing.put(pb.FrontEndMessage(**message))

    def submit(self, *requests) -> None:
        packed = [pack_request(each, handle) for handle, each in enumerate(requests, 1)]
        self.say(submission=pb.Submission(number=1, requests=packed))

    def leave(self) -> None:
        self._outgoing.put(None)


@pytest.fixture
def raw() -> Iterator:
    """raw(address) is a front end, gone at the test's end."""
    made: list[RawFrontEnd] = []

    def make(address: str) -> RawFrontEnd:
        made.append(RawFrontEnd(address))
        return made[-1]

    yield make
    for each in made:
        each.leave()
        each.channel.close()


def test_the_first_message_says_what_the_engine_is(raw):
    with served() as server:
        welcome = next(raw(server.address).call)
        assert (welcome.welcome.model, welcome.state, welcome.room) == ("fake/bytes", "ready", 10_000)
        with grpc.insecure_channel(server.address) as channel:
            assert EngineStub(channel).Describe(pb.DescribeRequest()).identity == "digest"


def test_a_front_end_that_ends_its_side_has_its_requests_cancelled(raw):
    with served(fake_engine(gap_s=0.001)) as server:
        front = raw(server.address)
        front.submit(request("a", 10**6))
        assert wait_for(lambda: server.engine.live == ["a"])
        assert server.service.open_requests == 1
        front.leave()
        assert wait_for(lambda: server.engine.live == [] and server.service.open_requests == 0)


def test_a_front_end_that_does_not_read_is_cut_off_and_others_go_on(raw, monkeypatch):
    monkeypatch.setattr(service, "MOST_UNSENT", 500)
    engine = fake_engine(gap_s=0.002)
    engine.tokens_per_step = 500  # so that little time fills what gRPC holds
    with served(engine) as server:
        front = raw(server.address)
        front.submit(*(request(f"r{index}", 10**5) for index in range(50)))
        assert wait_for(lambda: len(engine.submitted) == 50)
        assert wait_for(lambda: engine.live == [], 20)  # gRPC itself holds some messages first
        with pytest.raises(grpc.RpcError) as raised:
            list(front.call)
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert next(raw(server.address).call).HasField("welcome")


@pytest.mark.parametrize(
    "message",
    [{}, {"submission": pb.Submission(requests=[pb.Request(id="a", tier=9)])}],
    ids=["empty", "unknown tier"],
)
def test_what_cannot_be_understood_ends_the_connection(raw, message):
    with served() as server:
        front = raw(server.address)
        front.say(**message)
        with pytest.raises(grpc.RpcError) as raised:
            list(front.call)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_handles_that_mean_nothing_are_ignored(raw):
    with served(fake_engine(gap_s=0.001)) as server:
        front = raw(server.address)
        front.say(cancelled=pb.Handles(handles=[7]))
        front.submit(request("a", 3))
        rest = (each for message in front.call for each in message.step.rest)
        assert next(rest).finish == "length" and server.engine.cancelled == []
