"""Exchanges over real sockets: reuse, silence, cancellation, and servers that break off."""

from __future__ import annotations

import asyncio

import pytest

from andes_jax.failure import UsageError
from andes_jax.loadtest.connections import Address, Connections, parse_url
from andes_jax.loadtest.http_response import ResponseError
from andes_jax.loadtest.reply import StreamedReply
from tests.unit.loadtest.scripted import STREAM_HEAD, Peer, answer, event, scripted_server

REQUEST = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8000", Address("127.0.0.1", 8000)),
        ("localhost:9", Address("localhost", 9)),
        ("https://a.example/v1/", Address("a.example", 443, True)),
        ("http://a.example/llm/v1", Address("a.example", 80, False, "/llm")),
        ("http://[::1]:5", Address("::1", 5)),
    ],
)
def test_addresses(url, address):
    assert parse_url(url) == address
    assert Address("::1", 5).authority == "[::1]:5"


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:b", "http://a:99999", "http://u:p@a", "http://a?b=c"])
def test_what_is_no_address(url):
    with pytest.raises(UsageError, match="no address"):
        parse_url(url)


async def both(peer: Peer) -> None:
    while True:
        await peer.request()
        peer.send(answer({"number": peer.number}))


async def ask(connections: Connections) -> StreamedReply:
    reply = StreamedReply()
    async with asyncio.timeout(5):
        await connections.exchange(REQUEST, reply)
    return reply


async def test_a_connection_is_used_again_and_more_are_made_at_need():
    async with scripted_server(both) as server:
        connections = Connections(parse_url(server.url))
        for _ in range(3):
            assert (await ask(connections)).whole() == {"number": 0}
        numbers = await asyncio.gather(*(ask(connections) for _ in range(3)))
        assert sorted(reply.whole()["number"] for reply in numbers) == [0, 1, 2]
        connections.close()


async def test_a_connection_that_the_server_ended_while_idle_costs_nobody_a_request():
    async def once(peer: Peer) -> None:
        await peer.request()
        peer.send(answer({"number": peer.number}))
        if peer.number == 0:
            await peer.reader.readexactly(1)  # the next request's first byte: too late for it

    async with scripted_server(once) as server:
        connections = Connections(parse_url(server.url))
        assert (await ask(connections)).whole() == {"number": 0}
        assert (await ask(connections)).whole() == {"number": 1}
        connections.close()


async def test_a_server_that_says_nothing_on_a_new_connection_has_failed():
    async def hang_up(peer: Peer) -> None:
        await peer.request()

    async with scripted_server(hang_up) as server:
        with pytest.raises(ResponseError, match="no reply came"):
            await ask(Connections(parse_url(server.url)))
        assert len(server.peers) == 1


async def test_a_stream_that_breaks_off_is_an_error_and_what_came_is_kept():
    async def break_off(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM_HEAD, event("a"))

    async with scripted_server(break_off) as server:
        reply = StreamedReply()
        with pytest.raises(ResponseError, match="before the reply did"):
            await Connections(parse_url(server.url)).exchange(REQUEST, reply)
        assert reply.log.letters == [1]


async def test_cancelling_an_exchange_closes_its_connection():
    left = asyncio.Event()

    async def stream(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM_HEAD, event("a"))
        await peer.reader.read(1)
        left.set()

    async with scripted_server(stream) as server:
        connections = Connections(parse_url(server.url))
        reply = StreamedReply()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await connections.exchange(REQUEST, reply)
        await asyncio.wait_for(left.wait(), 5)


async def test_a_response_that_nobody_asked_for_ends_the_connection():
    async def chatty(peer: Peer) -> None:
        await peer.request()
        peer.send(answer({"number": peer.number}))
        if peer.number == 0:
            await asyncio.sleep(0.05)  # a packet of its own
            peer.send(answer({"stray": True}))
            await peer.reader.read()

    async with scripted_server(chatty) as server:
        connections = Connections(parse_url(server.url))
        assert (await ask(connections)).whole() == {"number": 0}
        await asyncio.sleep(0.2)
        assert (await ask(connections)).whole() == {"number": 1}
        connections.close()


async def test_nobody_listens():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(OSError, match="[Cc]onnect"):
        await ask(Connections(Address("127.0.0.1", port)))
