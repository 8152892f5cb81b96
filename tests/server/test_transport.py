"""What lies below a call."""

from __future__ import annotations

import h2.events
import httpx
import pytest

from server.transport import Transport, TransportExtension, TransportState, transport_of
from tests.server.parts import chat, says
from tests.server.raw_h2 import RawH2
from tests.server.test_tcp_server import certificates as certificates
from tests.server.test_tcp_server import connected, request_bytes
from tests.server.waiting import wait_for

CHAT = "/v1/chat/completions"


async def send(message):
    return None


async def test_without_hypercorn_nothing_can_be_done_and_nothing_breaks():
    assert not await Transport(send).send_empty_data() and not Transport(send).offer(b"text")
    assert Transport(send).round_trip_s() is None
    assert Transport(send).state() == TransportState() and TransportState().unsent_bytes == 0
    assert Transport(send).asked_weight() is None and not Transport(send).set_weight(7)
    assert transport_of({"type": "http"}) is None


@pytest.mark.parametrize("kind", ["http", "websocket", "lifespan"])
async def test_http_calls_have_their_transport(kind):
    seen = []

    async def app(scope, receive, send):
        seen.append(transport_of(scope))

    await TransportExtension(app)({"type": kind}, send, send)
    assert (seen[0] is not None) == (kind == "http")


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("unix", [False, True])
def test_round_trips_are_the_kernel_s(start, monkeypatch, tmp_path, http2, unix):
    told = []
    monkeypatch.setattr(Transport, "offer", noting(Transport.round_trip_s, told))
    server = start(says("Hello."), gap_s=0.005, unix_socket=tmp_path / "s")
    path = str(tmp_path / "s") if unix else None
    with httpx.Client(transport=httpx.HTTPTransport(http1=not http2, http2=http2, uds=path)) as client:
        assert client.post(server.url + "/v1/chat/completions", json=chat(stream=True)).status_code == 200
    assert told
    if unix:
        assert set(told) == {None}
    else:
        assert all(0 < round_trip_s < 0.1 for round_trip_s in told)


def noting(question, told):
    """Transport.offer that notes the answer to a question about the transport before it does its work."""
    offer = Transport.offer

    def offered(self, data):
        told.append(question(self))
        return offer(self, data)

    return offered


@pytest.mark.parametrize("http2", [False, True])
def test_tls_connections_have_a_state_too(start, certificates, monkeypatch, http2):
    files, trust = certificates
    told: list[TransportState] = []
    monkeypatch.setattr(Transport, "offer", noting(Transport.state, told))
    server = start(says("Hello."), gap_s=0.005, **files)
    with httpx.Client(http2=http2, verify=trust) as client:
        assert client.post(server.url + CHAT, json=chat(stream=True)).status_code == 200
    assert told
    for state in told:
        assert state.round_trip_s is not None and 0 < state.round_trip_s < 0.1
        assert (state.window_bytes is not None) == http2


@pytest.fixture
def transports(monkeypatch):
    """The transports of all calls, newest last."""
    made: list[Transport] = []
    begin = Transport.__init__

    def noted(self, send):
        begin(self, send)
        made.append(self)

    monkeypatch.setattr(Transport, "__init__", noted)
    return made


def unread_server(start):
    server = start(gap_s=0.0005, unread_timeout_s=60)
    server.engine.limits = type(server.engine.limits)(max_model_len=500_000)
    server.engine.tokens_per_step = 100
    return server


def test_what_an_unread_stream_has_written_is_unsent(start, transports):
    server = unread_server(start)
    with RawH2(server.port, hungry=False) as client:
        stream_id = client.post(CHAT, chat(stream=True, max_tokens=400_000))
        assert client.status(stream_id) == 200
        client.pump(lambda: len(client.data(stream_id)) >= 65535)
        assert wait_for(lambda: server.ask(transports[-1].state).stream_bytes > 1000)
        state = server.ask(transports[-1].state)
        assert state.window_bytes == 0 and state.unsent_bytes >= state.stream_bytes
        client.reset(stream_id)
        assert wait_for(lambda: not server.engine.live)
        after = server.ask(transports[-1].state)
        assert after.stream_bytes == 0 and after.window_bytes is None


def test_what_an_unread_connection_has_written_is_unsent(start, transports):
    server = unread_server(start)
    with connected(server, receive_buffer=4096) as client:
        client.sendall(request_bytes(chat(stream=True, max_tokens=400_000)))
        assert wait_for(lambda: transports)
        assert wait_for(lambda: server.ask(transports[-1].state).connection_bytes > 16_384)
        state = server.ask(transports[-1].state)
        assert state.stream_bytes == 0 and state.window_bytes is None


def test_weights_are_the_client_s_until_the_server_gives_one(start, transports):
    server = start()
    server.engine.hold()
    with RawH2(server.port) as client:
        stream_id = client.post(CHAT, chat(stream=True))
        assert client.status(stream_id) == 200
        [transport] = transports
        assert server.ask(transport.asked_weight) is None
        client.connection.prioritize(stream_id, weight=99)
        client.flush()
        assert wait_for(lambda: server.ask(transport.asked_weight) == 99)
        assert server.ask(lambda: transport.set_weight(7))
        client.reset(stream_id)
        server.engine.release()
        assert wait_for(lambda: not server.engine.live)
        assert server.ask(transport.asked_weight) is None and not server.ask(lambda: transport.set_weight(7))
        assert not client.of(stream_id, h2.events.StreamReset)
