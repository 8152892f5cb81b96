"""Whatever goes wrong inside is an answer outside, counted once."""

from __future__ import annotations

import logging

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from server.body import BodyReader
from server.context import ServerSettings
from server.errors import ApiError
from server.metrics import Metrics
from server.shield import Shield
from tests.server.test_metrics import Silent


class Call:
    def __init__(self, *messages: dict) -> None:
        self.messages = list(messages)
        self.sent: list[dict] = []
        self.metrics = Metrics(Silent(), lambda: 0)

    async def receive(self) -> dict:
        return self.messages.pop(0)

    async def send(self, message: dict) -> None:
        self.sent.append(message)

    async def run(self, app) -> None:
        shield = Shield(app, self.metrics, BodyReader(ServerSettings()), {"endpoint": "/path"})
        scope = {"type": "http", "path": "/path", "method": "POST", "endpoint": "endpoint"}
        await shield(scope, self.receive, self.send)

    def counted(self, status: str) -> float | None:
        labels = {"endpoint": "/path", "status": status}
        return self.metrics.registry.get_sample_value("andes_http_requests_total", labels)


BODY = {"type": "http.request", "body": b"x" * 100, "more_body": False}


def raises(error: Exception):
    async def app(scope, receive, send):
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "status"),
    [(ApiError("x", status=401), "401"), (HTTPException(405), "405"), (KeyError("secret"), "500")],
)
async def test_errors_are_answered_once_the_body_is_taken(error, status, caplog):
    caplog.set_level(logging.CRITICAL, "andes_jax.server")
    part = {"type": "http.request", "body": b"y", "more_body": True}
    call = Call(part, part, BODY)
    await call.run(raises(error))
    assert call.messages == [] and call.sent[0]["status"] == int(status)
    assert b"secret" not in call.sent[1]["body"] and b'"error"' in call.sent[1]["body"]
    assert call.counted(status) == 1


async def test_a_client_that_left_gets_nothing():
    for call in (Call(), Call({"type": "http.disconnect"})):
        await call.run(raises(ClientDisconnect() if not call.messages else ApiError("x")))
        assert call.sent == [] and call.counted("disconnected") == 1


async def test_the_body_is_taken_once():
    async def app(scope, receive, send):
        await receive()
        raise ApiError("x")

    call = Call(BODY)
    await call.run(app)
    assert call.sent[0]["status"] == 400


async def test_a_fault_after_the_start_breaks_the_stream(caplog):
    caplog.set_level(logging.CRITICAL, "andes_jax.server")

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError

    call = Call(BODY)
    with pytest.raises(RuntimeError):
        await call.run(app)
    assert len(call.sent) == 1 and call.counted("200") == 1


async def test_a_large_body_is_not_read_for_ever():
    part = {"type": "http.request", "body": b"y" * 2**20, "more_body": True}
    call = Call(*[part] * 100)
    await call.run(raises(ApiError("x", status=413)))
    assert call.sent[0]["status"] == 413 and len(call.messages) > 80
