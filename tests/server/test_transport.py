"""What lies below a call."""

from __future__ import annotations

import pytest

from server.transport import Transport, TransportExtension, transport_of


async def send(message):
    return None


async def test_without_hypercorn_nothing_can_be_done_and_nothing_breaks():
    assert not await Transport(send).send_empty_data()
    assert transport_of({"type": "http"}) is None


@pytest.mark.parametrize("kind", ["http", "websocket", "lifespan"])
async def test_http_calls_have_their_transport(kind):
    seen = []

    async def app(scope, receive, send):
        seen.append(transport_of(scope))

    await TransportExtension(app)({"type": kind}, send, send)
    assert (seen[0] is not None) == (kind == "http")
