"""Health, readiness and metrics for operators."""

from __future__ import annotations

import pytest

from tests.server.parts import chat, mk_context, says


@pytest.mark.parametrize("state", ["starting", "ready", "draining", "failed", "stopped"])
async def test_alive_always_and_ready_only_when_ready(connect, state):
    context = mk_context(says("x"))
    client = connect(context)
    context.engine.state = state
    assert (await client.get("/health")).status_code == 200
    ready = await client.get("/ready")
    assert ready.status_code == (200 if state == "ready" else 503)
    assert ready.json() == {"status": state}
    assert ("retry-after" in ready.headers) == (state != "ready")


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("starting", "engine_not_ready"),
        ("draining", "shutting_down"),
        ("failed", "engine_failed"),
        ("stopped", "engine_failed"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_calls_wait_for_the_engine(connect, state, code, stream):
    context = mk_context(says("x"))
    client = connect(context)
    context.engine.state = state
    answer = await client.post("/v1/chat/completions", json=chat(stream=stream))
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == code
    assert answer.headers["retry-after"] == "1"


async def test_metrics_are_prometheus_text(connect):
    answer = await connect().get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "andes_engine_state" in answer.text


async def test_the_index_names_every_endpoint(connect):
    client = connect()
    named = set((await client.get("/")).json()["endpoints"])
    await client.get("/v1/models/other")
    assert 'endpoint="/v1/models/{model_id}",status="404"' in (await client.get("/metrics")).text
    served = {route.path_format for route in client._transport.app.routes}
    below = {path for path in served if path.startswith(("/v1/models/", "/v1/files/", "/v1/batches/"))}
    assert served - named == {"/", *below} and named < served
