"""What lies below a call."""

from __future__ import annotations

import socket

import httpx
import pytest

from server.transport import Transport, TransportExtension, transport_of
from server.unread import UnreadWatch
from tests.server.parts import chat, says


async def send(message):
    return None


async def test_without_hypercorn_nothing_can_be_done_and_nothing_breaks():
    assert not await Transport(send).send_empty_data()
    assert Transport(send).round_trip_s() is None
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
    monkeypatch.setattr(UnreadWatch, "over", watched(told))
    server = start(says("Hello."), unix_socket=tmp_path / "s")
    path = str(tmp_path / "s") if unix else None
    with httpx.Client(transport=httpx.HTTPTransport(http1=not http2, http2=http2, uds=path)) as client:
        assert client.post(server.url + "/v1/chat/completions", json=chat(stream=True)).status_code == 200
    assert told
    if unix:
        assert set(told) == {None}
    else:
        assert all(0 < round_trip_s < 0.1 for round_trip_s in told)


def watched(told):
    over = UnreadWatch.over

    async def watching(self, message):
        told.append(self._transport.round_trip_s())
        await over(self, message)

    return watching


async def test_a_closed_socket_has_no_round_trip():
    class Writer:
        def get_extra_info(self, name):
            with socket.socket() as closed:
                return closed

    transport = Transport(send)
    transport._connection = type("Connection", (), {"writer": Writer()})()
    assert transport.round_trip_s() is None
