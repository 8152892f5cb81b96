"""One stream, whatever it does, leaves the others of its connection alone."""

from __future__ import annotations

import socket
import threading
import time

import h2.events
import httpx
import orjson
import pytest

from server.hypercorn_repairs.buffer import STREAM_HIGH, FairStreamBuffer
from tests.server.parts import chat, chat_text, events_of, says
from tests.server.raw_h2 import RawH2
from tests.server.waiting import assert_idle, wait_for

CHAT = "/v1/chat/completions"


def finishes(client: RawH2, stream_id: int, text: str = "Hello.") -> None:
    assert client.status(stream_id) == 200
    assert chat_text(events_of(client.whole(stream_id))) == text


def test_head_and_an_empty_frame_come_first(start):
    server = start(says("Hello."))
    server.engine.hold()
    with RawH2(server.port) as client:
        stream_id = client.post(CHAT, chat(stream=True))
        assert client.status(stream_id) == 200
        assert client.pump(lambda: bool(client.of(stream_id, h2.events.DataReceived)))
        assert client.data(stream_id) == b""
        server.engine.release()
        finishes(client, stream_id)


@pytest.mark.parametrize("body", [b"", b'{"prompt"', b"x" * 200_000])
def test_body_after_a_refusal(start, body):
    """The answer (401) may be complete before the request's body is."""
    server = start(says("Hello."), api_keys=("k",), gap_s=0.02)
    with RawH2(server.port) as client:
        good = client.headers(CHAT, extra={"authorization": "Bearer k"})
        client.connection.send_data(good, orjson.dumps(chat(stream=True)), end_stream=True)
        bad = client.headers(CHAT)
        for at in range(0, len(body), 10_000):
            part = body[at : at + 10_000]
            assert client.pump(lambda: client.connection.local_flow_control_window(bad) >= 10_000)
            client.connection.send_data(bad, part)
            client.flush()
        assert client.status(bad) == 401  # once no more of the body comes
        client.connection.send_data(bad, b"late")
        client.connection.end_stream(bad)
        client.flush()
        finishes(client, good)
        finishes_again = client.headers(CHAT, extra={"authorization": "Bearer k"})
        client.connection.send_data(finishes_again, orjson.dumps(chat(stream=True)), end_stream=True)
        client.flush()
        finishes(client, finishes_again)


def test_an_application_that_fails_mid_stream_ends_its_stream(start):
    server = start(says("Hello."), gap_s=0.02)
    with RawH2(server.port) as client:
        first = client.post(CHAT, chat(stream=True))
        broken = client.post(CHAT, chat(stream=True))
        assert client.status(first) == client.status(broken) == 200
        [call] = {
            id(each): each
            for request_id, each in server.serving.app.services.front_end._calls.items()
            if request_id == server.engine.submitted[1].id
        }.values()

        def crash():
            raise ZeroDivisionError

        server.ask(lambda: setattr(call, "take", crash))
        finishes(client, first)
        assert client.pump(lambda: client.ended(broken))
        assert client.of(broken, h2.events.StreamReset)
        for _ in range(3):
            finishes(client, client.post(CHAT, chat(stream=True)))
    assert server.counts()["engine"] == 0


def test_more_than_a_thousand_calls_on_one_connection(start):
    server = start(says("x"))
    with RawH2(server.port) as client:
        for _ in range(11):
            streams = [client.get("/health") for _ in range(100)]
            assert client.pump(lambda ids=streams: all(client.ended(each) for each in ids), 20)
        live = client.post(CHAT, chat(stream=True))
        finishes(client, live, "x")
        assert not [each for each in client.events if isinstance(each, h2.events.ConnectionTerminated)]


def test_the_stream_beyond_the_limit_is_refused_alone(start):
    server = start(says("Hello."))
    server.engine.hold()
    with RawH2(server.port) as client:
        assert client.pump(lambda: any(isinstance(each, h2.events.RemoteSettingsChanged) for each in client.events))
        limit = client.connection.remote_settings.max_concurrent_streams
        assert limit == 256
        streams = [client.post(CHAT, chat(stream=True)) for _ in range(limit)]
        assert client.pump(lambda: all(client.of(each, h2.events.ResponseReceived) for each in streams), 20)
        client.connection.remote_settings.max_concurrent_streams = 1000  # the library would keep the limit
        client.connection.remote_settings.acknowledge()
        extra = client.post(CHAT, chat(stream=True))
        client.pump(lambda: client.ended(extra) or client.closed, 5)
        server.engine.release()
        assert not client.closed, "the connection died"
        assert client.of(extra, h2.events.StreamReset)
        for stream_id in streams:
            finishes(client, stream_id)


def test_an_unread_stream_costs_bounded_memory_and_no_time_of_others(start, monkeypatch):
    size = 400_000
    server = start(lambda request: (*(b"x" * size), 256), gap_s=0.0005, unread_timeout_s=60)
    allow_long_replies(server, size)
    pushed: list[int] = []
    push = FairStreamBuffer.push

    async def watched(self, data: bytes) -> None:
        pushed.append(len(self.buffer))
        await push(self, data)

    monkeypatch.setattr(FairStreamBuffer, "push", watched)
    with RawH2(server.port, hungry=False) as client:
        unread = client.post(CHAT, chat(stream=True, max_tokens=size))
        assert client.status(unread) == 200
        client.pump(lambda: len(client.data(unread)) >= 65535)
        assert wait_for(lambda: not server.engine.live, 20)
        assert max(pushed) < STREAM_HIGH  # nothing is added to a full buffer
        sends = len(pushed)
        with RawH2(server.port) as other:
            finishes(other, other.post(CHAT, chat(stream=True, max_tokens=3)), "xxx")
        assert server.counts()["calls"] == 1 and len(pushed) - sends < 10
        client.connection.increment_flow_control_window(10_000, None)
        client.flush()
        other_stream = client.get("/health")  # the same connection still answers
        assert client.pump(lambda: client.ended(other_stream))
        client.reset(unread)
    assert_idle(server)


def allow_long_replies(server, size: int) -> None:
    server.engine.limits = type(server.engine.limits)(max_model_len=size + 1000)
    server.engine.tokens_per_step = 200


def test_a_stream_left_unread_for_too_long_is_reset(start):
    size = 300_000
    server = start(lambda request: (*(b"x" * size), 256), send_stall_s=0.4)
    allow_long_replies(server, size)
    with RawH2(server.port, hungry=False) as client:
        unread = client.post(CHAT, chat(stream=True, max_tokens=size))
        assert client.pump(lambda: bool(client.of(unread, h2.events.StreamReset)), 10)
        assert_idle(server)
        client.connection.increment_flow_control_window(100_000, None)
        health = client.get("/health")
        assert client.status(health) == 200


@pytest.mark.parametrize("h2_client", [True, False])
def test_the_end_of_a_long_reply_reaches_a_slow_reader(start, h2_client):
    size = 200_000
    server = start(lambda request: (*(b"x" * size), 256))
    allow_long_replies(server, size)
    with httpx.Client(base_url=server.url, http1=not h2_client, http2=h2_client, timeout=20) as client:
        with client.stream("POST", CHAT, json=chat(stream=True, max_tokens=size)) as answer:
            data = b""
            for part in answer.iter_raw():
                data += part
                if len(data) < 300_000:
                    time.sleep(0.001)
        assert len(chat_text(events_of(data))) == size


@pytest.mark.parametrize("h2_client", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_leaving_ends_the_generation_at_once(start, h2_client, stream):
    server = start(gap_s=0.005)
    if h2_client:
        with RawH2(server.port) as client:
            stream_id = client.post(CHAT, chat(stream=stream))
            assert wait_for(lambda: server.engine.live)
            client.reset(stream_id)
            assert wait_for(lambda: not server.engine.live)
            assert client.status(client.get("/health")) == 200
    else:
        body = orjson.dumps(chat(stream=stream))
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            client.sendall(head % (CHAT.encode(), len(body)) + body)
            assert wait_for(lambda: server.engine.live)
        assert wait_for(lambda: not server.engine.live)
    assert_idle(server)
    assert server.engine.cancelled


def test_rapid_resets_end_the_connection_alone(start):
    server = start(gap_s=0.01)
    victim = threading.Thread(target=lambda: httpx.post(server.url + CHAT, json=chat(max_tokens=50), timeout=10))
    victim.start()
    with RawH2(server.port) as client:
        for _ in range(1000):
            try:
                stream_id = client.headers(CHAT)
                client.reset(stream_id)
            except OSError:
                break
        assert client.pump(lambda: client.closed)
        ended = [each for each in client.events if isinstance(each, h2.events.ConnectionTerminated)]
        assert not ended or ended[0].error_code == 11
    victim.join(10)
    assert not victim.is_alive()
    assert httpx.get(server.url + "/health").status_code == 200
    assert_idle(server)


@pytest.mark.parametrize(
    "fields",
    [
        [(":method", "CONNECT"), (":authority", "x")],
        [(":method", "GET"), (":path", "/é"), (":scheme", "http"), (":authority", "x")],
    ],
)
def test_odd_heads_hurt_no_other_stream(start, fields):
    server = start(says("Hello."), gap_s=0.02)
    with RawH2(server.port) as client:
        good = client.post(CHAT, chat(stream=True))
        client.connection.config.validate_outbound_headers = False
        client.connection.config.normalize_outbound_headers = False
        odd = client.connection.get_next_available_stream_id()
        client.connection.send_headers(odd, fields, end_stream=True)
        client.flush()
        assert client.pump(lambda: client.ended(odd))
        finishes(client, good)


def test_a_head_beyond_the_limit_ends_its_connection_alone(start):
    server = start(says("Hello."), gap_s=0.02)
    with RawH2(server.port) as good, RawH2(server.port) as odd:
        stream_id = good.post(CHAT, chat(stream=True))
        odd.headers("/health", "GET", {f"name-{number}": "x" * 1000 for number in range(60)}, end=True)
        assert odd.pump(lambda: odd.closed)
        finishes(good, stream_id)


def test_priority_frames_hurt_nobody(start):
    server = start(says("Hello."), gap_s=0.02)
    with RawH2(server.port) as client:
        good = client.post(CHAT, chat(stream=True))
        for number in range(1200):
            client.connection.prioritize(2 * number + 101, weight=20, depends_on=0)
        client.connection.prioritize(good, weight=20, depends_on=99)
        client.connection.prioritize(99, weight=20, depends_on=good)
        client.flush()
        finishes(client, good)
