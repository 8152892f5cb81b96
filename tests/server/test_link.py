"""What the kernel says of connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from andes_jax.clock import VirtualClock
from server.link import FRESH_S, Link


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection, ours first."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as peer:
            yield peer, client


def test_the_facts_of_a_connection(pair):
    clock = VirtualClock()
    peer, client = pair
    link = Link(peer, clock.now)
    peer.sendall(b"x" * 1000)
    assert client.recv(1000)
    facts = link.facts()
    assert facts is not None and facts.unsent_bytes == 0
    assert facts.round_trip_s is not None and 0 < facts.round_trip_s < 0.1


def test_facts_are_kept_for_a_moment(pair):
    clock = VirtualClock(5.0)
    peer, _ = pair
    peer.setblocking(False)
    link = Link(peer, clock.now)
    before = link.facts()
    with pytest.raises(BlockingIOError):
        while True:
            peer.send(b"x" * 100_000)
    clock.advance(FRESH_S / 2)
    assert link.facts() is before
    clock.advance(FRESH_S)
    after = link.facts()
    assert before is not None and after is not None
    assert before.unsent_bytes == 0 < after.unsent_bytes


def test_what_the_kernel_does_not_tell(pair):
    clock = VirtualClock()
    peer, _ = pair
    assert Link(None, clock.now).facts() is None
    one, other = socket.socketpair()
    with one, other:
        assert Link(one, clock.now).facts() is None
    link = Link(peer, clock.now)
    peer.close()
    assert link.facts() is None


@pytest.mark.parametrize(
    ("microseconds", "rate", "round_trip_s", "delivery"),
    [(0, 0, None, None), (2**32 - 1, 7, None, 7.0), (40_000, 125_000, 0.04, 125_000.0)],
)
def test_facts_that_were_not_measured_yet(microseconds, rate, round_trip_s, delivery):
    class Peer:
        family = socket.AF_INET

        def getsockopt(self, level, option, size):
            told = bytearray(size)
            for offset, width, value in ((144, 4, 99), (148, 4, microseconds), (160, 8, rate)):
                told[offset : offset + width] = value.to_bytes(width, "little")
            return bytes(told)

    facts = Link(Peer(), VirtualClock().now).facts()
    assert facts == (round_trip_s, delivery, 99)


def test_an_older_kernel_tells_less():
    class Peer:
        family = socket.AF_INET6

        def getsockopt(self, level, option, size):
            return bytes(104)

    assert Link(Peer(), VirtualClock().now).facts() is None
