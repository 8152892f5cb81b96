"""Clients that leave their stream unread are paused, and get everything once they read."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import httpx
import pytest

from server.unread import UnreadWatch
from tests.server.fake_engine import letters
from tests.server.parts import chat, chat_text, completion, events_of
from tests.server.raw_h2 import RawH2
from tests.server.test_tcp_server import connected, request_bytes
from tests.server.waiting import assert_idle, wait_for

CHAT = "/v1/chat/completions"
LONG = 60_000  # tokens, a byte each


class RecordedCall:
    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


class Link:
    def __init__(self, round_trip_s: float | None) -> None:
        self._round_trip_s = round_trip_s

    def round_trip_s(self) -> float | None:
        return self._round_trip_s


@pytest.fixture
async def timers(monkeypatch):
    """The delays of all timers of the loop, which go off when told."""
    made: list[tuple[float, object]] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later

    def call_later(delay, callback, *arguments):
        made.append((delay, callback))
        return later(3600, callback, *arguments)

    monkeypatch.setattr(loop, "call_later", call_later)
    return made


async def test_a_send_that_is_over_at_once_needs_no_timer(timers):
    call = RecordedCall()
    watch = UnreadWatch(call, Link(None), 1.5)

    async def send():
        sent.append(1)

    sent: list[int] = []
    for _ in range(3):
        await watch.over(send())
    assert sent == [1, 1, 1] and timers == [] and call.told == []


@pytest.mark.parametrize(("round_trip_s", "limit_s"), [(None, 1.5), (0.01, 1.5), (0.3, 1.5), (0.301, 3.0)])
async def test_a_send_that_waits_has_one_timer(timers, round_trip_s, limit_s):
    call, read = RecordedCall(), asyncio.Event()
    watch = UnreadWatch(call, Link(round_trip_s), 1.5)
    sending = asyncio.create_task(watch.over(read.wait()))
    await asyncio.sleep(0)
    [(delay, go_off)] = timers
    assert delay == limit_s and call.told == []
    go_off()
    assert call.told == ["pause"]
    read.set()
    await sending
    assert call.told == ["pause", "resume"]


async def test_a_send_that_ends_in_time_pauses_nothing(timers):
    call, read = RecordedCall(), asyncio.Event()
    sending = asyncio.create_task(UnreadWatch(call, None, 1.5).over(read.wait()))
    await asyncio.sleep(0)
    read.set()
    await sending
    assert len(timers) == 1 and call.told == []


async def test_a_send_that_fails_resumes_nothing(timers):
    call, begun = RecordedCall(), asyncio.Event()

    async def broken():
        await begun.wait()
        raise ConnectionError("gone")

    sending = asyncio.create_task(UnreadWatch(call, None, 1.5).over(broken()))
    await asyncio.sleep(0)
    timers[0][1]()
    begun.set()
    with pytest.raises(ConnectionError):
        await sending

    async def broken_at_once():
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await UnreadWatch(call, None, 1.5).over(broken_at_once())
    assert call.told == ["pause"]


async def test_cancelling_ends_the_send_too(timers):
    ended = []

    async def send():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    call = RecordedCall()
    sending = asyncio.create_task(UnreadWatch(call, None, 1.5).over(send()))
    await asyncio.sleep(0)
    timers[0][1]()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert ended == [1] and call.told == ["pause"]


def unread_server(start, **settings):
    # Chunks of many tokens would make the reply too small to fill the buffers.
    server = start(**{"gap_s": 0.0005, "unread_timeout_s": 0.2, "adaptive_chunks": False} | settings)
    server.engine.limits = type(server.engine.limits)(max_model_len=LONG + 1000)
    server.engine.tokens_per_step = 50
    return server


def assert_paused(server, choices: int = 1) -> None:
    engine = server.engine
    assert wait_for(lambda: [what for what, _ in engine.told].count("pause") >= choices)
    assert engine.told == [("pause", request.id) for request in engine.submitted[-choices:]]
    assert len(engine.live) == choices
    made = engine.statistics().generated_tokens
    assert made < choices * LONG
    # Everybody else is served meanwhile, and nothing is generated for the one who does not read.
    for body in (chat(max_tokens=30), chat(max_tokens=30, stream=True, seed=1)):
        assert httpx.post(server.url + CHAT, json=body).status_code == 200
    assert engine.statistics().generated_tokens == made + 60
    assert f"andes_unread_pauses_total {choices}.0" in httpx.get(server.url + "/metrics").text


def texts_of(events, choices: int = 1) -> list[str]:
    return [chat_text(events, index) for index in range(choices)]


def whole_texts(server, choices: int) -> list[str]:
    return [bytes(letters(request)).decode() for request in server.engine.submitted[:choices]]


def read_chunked(client: socket.socket) -> bytes:
    """The body of an HTTP/1.1 reply on a connection that closes after it."""
    data = b""
    while part := client.recv(1 << 20):
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    parts = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        parts.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return b"".join(parts)


@pytest.mark.parametrize("n", [1, 3])
def test_a_stalled_reader_over_http1(start, n):
    server = unread_server(start)
    body = chat(stream=True, max_tokens=LONG // n, seed=3, n=n)
    with connected(server, receive_buffer=4096) as client:
        client.sendall(request_bytes(body).replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n"))
        assert_paused(server, n)
        data = read_chunked(client)
    assert ("resume", server.engine.submitted[0].id) in server.engine.told
    assert texts_of(events_of(data), n) == whole_texts(server, n)
    assert_idle(server)


@pytest.mark.parametrize("n", [1, 3])
def test_a_stalled_stream_over_http2(start, n):
    server = unread_server(start)
    body = chat(stream=True, max_tokens=LONG // n, seed=3, n=n)
    with RawH2(server.port, hungry=False) as client:
        client.connection.increment_flow_control_window(1 << 24)
        client.flush()
        unread = client.post(CHAT, body)
        assert client.status(unread) == 200
        assert_paused(server, n)
        # Another stream of the same connection goes on.
        other = client.post(CHAT, chat(stream=True, max_tokens=20, seed=1))
        assert len(chat_text(events_of(client.whole(other)))) == 20
        client.connection.increment_flow_control_window(1 << 24, unread)
        client.flush()
        data = client.whole(unread, 20)
    assert ("resume", server.engine.submitted[0].id) in server.engine.told
    assert texts_of(events_of(data), n) == whole_texts(server, n)
    assert_idle(server)


def test_leaving_while_paused_cancels_over_http1(start):
    server = unread_server(start)
    client = connected(server, receive_buffer=4096)
    client.sendall(request_bytes(chat(stream=True, max_tokens=LONG)))
    assert_paused(server)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    assert wait_for(lambda: server.engine.cancelled)
    assert_idle(server)


@pytest.mark.parametrize("how", ["reset", "close"])
def test_leaving_while_paused_cancels_over_http2(start, how):
    server = unread_server(start)
    with RawH2(server.port, hungry=False) as client:
        unread = client.post(CHAT, chat(stream=True, max_tokens=LONG))
        assert client.status(unread) == 200
        assert_paused(server)
        if how == "reset":
            client.reset(unread)
        else:
            client.socket.close()
        assert wait_for(lambda: server.engine.cancelled)
        assert_idle(server)


def test_a_paused_client_that_stays_away_is_cut_off(start):
    server = unread_server(start, send_stall_s=0.8)
    with RawH2(server.port, hungry=False) as client:
        unread = client.post(CHAT, chat(stream=True, max_tokens=LONG))
        assert client.status(unread) == 200
        assert_paused(server)
        assert wait_for(lambda: server.engine.cancelled)
        assert_idle(server)


def test_readers_are_never_paused(start):
    server = unread_server(start)
    with contextlib.ExitStack() as stack:
        for http2 in (False, True):
            client = stack.enter_context(httpx.Client(base_url=server.url, http1=not http2, http2=http2, timeout=20))
            with client.stream("POST", "/v1/completions", json=completion(stream=True, max_tokens=LONG)) as answer:
                answer.read()
    assert server.engine.told == []
