"""Connections end with their peer, and unread ones stay small."""

from __future__ import annotations

import socket
import ssl
import time

import h2.events
import httpx
import orjson
import pytest

from server.hypercorn_repairs.config import RepairedConfig
from tests.server.parts import chat, chat_text, events_of, says
from tests.server.raw_h2 import RawH2
from tests.server.waiting import assert_idle, wait_for

CHAT = "/v1/chat/completions"


def request_bytes(body: dict) -> bytes:
    data = orjson.dumps(body)
    head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (CHAT.encode(), len(data)) + data


def connected(server, receive_buffer: int | None = None) -> socket.socket:
    client = socket.socket()
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.connect(("127.0.0.1", server.port))
    client.settimeout(5)
    return client


def long_reply(start, size: int, **settings):
    server = start(lambda request: (*(b"x" * size), 256), **settings)
    server.engine.limits = type(server.engine.limits)(max_model_len=size + 1000)
    server.engine.tokens_per_step = 1000
    return server


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"])
def test_a_closed_connection_is_let_go_at_once(start, sent):
    server = start(keep_alive_s=60)
    with connected(server) as client:
        client.sendall(sent)
        if sent:
            assert b"200" in client.recv(65536)
        assert wait_for(lambda: len(server.config.connections) == 1)
    assert wait_for(lambda: not server.config.connections, 2)


def test_an_idle_connection_is_closed(start):
    server = start(keep_alive_s=0.2)
    with connected(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(0.1)
        answered = client.recv(65536)
        assert b"200" in answered and client.recv(65536) == b""


def test_an_idle_http2_connection_is_closed_with_a_farewell(start):
    server = start(keep_alive_s=0.2)
    with RawH2(server.port) as silent, RawH2(server.port) as used:
        assert used.status(used.get("/health")) == 200
        for client in (silent, used):
            assert client.pump(lambda client=client: client.closed)
            assert any(isinstance(each, h2.events.ConnectionTerminated) for each in client.events)


def test_an_idle_connection_stays_while_a_reply_is_awaited(start):
    server = start(says("Hello."), keep_alive_s=0.1)
    server.engine.hold()
    with connected(server) as client:
        client.sendall(request_bytes(chat()))
        time.sleep(0.4)
        server.engine.release()
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


def test_an_unread_reply_is_held_back_and_then_dropped(start):
    server = long_reply(start, 3_000_000, send_stall_s=1.0)
    with connected(server, receive_buffer=4096) as client:
        client.sendall(request_bytes(chat(stream=True, max_tokens=3_000_000)))
        assert wait_for(lambda: server.engine.live)
        started = time.monotonic()
        assert httpx.post(server.url + CHAT, json=chat(max_tokens=3)).status_code == 200
        assert time.monotonic() - started < 2
        wait_for(lambda: server.counts()["calls"] == 0, 15)
    assert_idle(server)


def test_a_client_that_vanishes_behind_its_window(start):
    """Closing with unread data resets the connection: a send that waits must end."""
    server = long_reply(start, 3_000_000)
    client = connected(server, receive_buffer=4096)
    client.sendall(request_bytes(chat(stream=True, max_tokens=3_000_000)))
    assert wait_for(lambda: server.engine.live)
    time.sleep(0.1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    assert_idle(server)
    assert wait_for(lambda: not server.config.connections)


def test_garbage_hurts_nobody(start, capfd):
    server = start(says("Hello."), gap_s=0.01)
    with connected(server) as good:
        good.sendall(request_bytes(chat()))
        for junk in (b"\x16\x03\x01 secret-bytes", b"GET", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"secret-bytes" * 9):
            with connected(server) as bad:
                bad.sendall(junk + b"\r\n\r\n")
                bad.shutdown(socket.SHUT_WR)
                while bad.recv(65536):
                    pass
        answer = b""
        while b"Hello." not in answer:
            answer += good.recv(65536) or pytest.fail("cut off")
    assert wait_for(lambda: not server.config.connections)
    assert "secret-bytes" not in "".join(capfd.readouterr())


def test_abort_cuts_what_is_open(start):
    server = start()
    server.engine.hold()
    with connected(server) as client:
        client.sendall(request_bytes(chat(stream=True)))
        assert client.recv(65536)
        server.loop.call_soon_threadsafe(server.config.abort_connections)
        with pytest.raises(ConnectionError):
            while client.recv(65536):
                pass
            raise ConnectionResetError
    server.engine.release()
    assert_idle(server)


def test_connections_belong_to_one_server():
    one, two = RepairedConfig(), RepairedConfig()
    assert one.connections is not two.connections


@pytest.fixture
def certificates(tmp_path):
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for part in issued.cert_chain_pems:
        part.write_to_path(tmp_path / "cert.pem", append=True)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return {"certfile": tmp_path / "cert.pem", "keyfile": tmp_path / "key.pem"}, trust


@pytest.mark.parametrize(("protocols", "version"), [(["h2", "http/1.1"], "HTTP/2"), (["http/1.1"], "HTTP/1.1")])
@pytest.mark.parametrize("stream", [False, True])
def test_tls_with_either_protocol(start, certificates, protocols, version, stream):
    files, trust = certificates
    server = start(says("Hello."), insecure_port=0, **files)
    assert server.url.startswith("https://") and server.urls[1].startswith("http://")
    with httpx.Client(http2="h2" in protocols, verify=trust) as client:
        answer = client.post(server.url + CHAT, json=chat(stream=stream))
        text = chat_text(events_of(answer.content)) if stream else answer.text
        assert answer.http_version == version and "Hello." in text
    assert httpx.post(server.urls[1] + CHAT, json=chat()).status_code == 200


def test_tls_clients_that_leave(start, certificates):
    files, trust = certificates
    server = start(gap_s=0.005, **files)
    with socket.create_connection(("127.0.0.1", server.port)) as half:  # in the middle of the handshake
        half.sendall(b"\x16\x03\x01")
    raw = socket.create_connection(("127.0.0.1", server.port))
    with trust.wrap_socket(raw, server_hostname="localhost") as client:
        client.sendall(request_bytes(chat(stream=True)))
        assert wait_for(lambda: server.engine.live)
    assert_idle(server)
    assert server.engine.cancelled
