"""Calls over HTTP: what is tried again, for how long, and what is taken as it is."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from andes_jax.failure import UsageError, UserError
from andes_jax.jobs.client import Bounded, Reply, ServerLost, server_http
from tests.unit.jobs.parts import Waits, client

GOOD = {"id": "cmpl-1", "usage": {"completion_tokens": 2}}


def in_turn(*answers):
    """A server that gives these answers, the last one for ever, and the calls it got."""
    calls = []

    def handler(request):
        answer = answers[min(len(calls), len(answers) - 1)]
        calls.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handler, calls


def refused(status, **headers):
    return httpx.Response(status, json={"error": {"message": "not now"}}, headers=headers)


async def test_a_server_that_is_away_is_waited_for():
    handler, calls = in_turn(
        httpx.ConnectError("refused"), httpx.ReadError(""), refused(429), refused(503),
        httpx.Response(502, text="<html>"), httpx.Response(200, text="half"),
        httpx.Response(200, json=GOOD, headers={"x-request-id": "req-1"}),
    )  # fmt: skip
    waits, troubles = Waits(), []
    reply = await client(handler, waits, troubles).post("/v1/completions", {"prompt": "天"})
    assert reply == Reply(200, GOOD, "req-1") and reply.final
    assert len(calls) == 7 and len(waits.slept) == 6
    assert json.loads(calls[-1].content) == {"prompt": "天"}
    assert "refused" in troubles[0] and "503 (not now)" in troubles[3] and troubles[-1] is None


async def test_a_server_that_asks_for_time_gets_it():
    handler, _ = in_turn(refused(503, **{"retry-after": "7"}), httpx.Response(200, json=GOOD))
    waits = Waits()
    assert (await client(handler, waits).post("/v1/completions", {})).request_id == "cmpl-1"
    assert waits.slept == [7.0]


async def test_a_server_that_stays_away_is_lost():
    handler, _ = in_turn(httpx.ConnectError("refused"))
    waits = Waits()
    with pytest.raises(ServerLost, match="refused.*goes on with the rest"):
        await client(handler, waits, limit_s=60).post("/v1/completions", {})
    assert 25 < waits.now_s <= 60


@pytest.mark.parametrize(("status", "tries", "final"), [(400, 1, True), (404, 1, True), (500, 3, False)])
async def test_errors_of_the_call_are_answers(status, tries, final):
    handler, calls = in_turn(refused(status))
    reply = await client(handler, Waits()).post("/v1/completions", {})
    assert (reply.status, reply.final, len(calls)) == (status, final, tries)


async def test_the_model_is_chosen_and_the_batch_tier_asked_for_where_there_is_one():
    bodies = []

    def handler(request):
        if request.method == "GET":
            own = {"id": "own", "owned_by": "andes-jax", "max_model_len": 64}
            return httpx.Response(200, json={"data": [{"id": "other", "owned_by": "x"}, own]})
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json=GOOD)

    asks = client(handler, Waits())
    assert (await asks.model()).native is False
    await asks.post("/v1/completions", {})
    model = await asks.model("own")
    assert (model.name, model.context_tokens, model.native) == ("own", 64, True)
    await asks.post("/v1/completions", {"service_tier": "priority"})
    assert bodies == [{}, {"service_tier": "flex"}]
    with pytest.raises(UsageError, match="'gone', but other, own"):
        await asks.model("gone")


async def test_a_server_without_models_is_told():
    handler, _ = in_turn(refused(401))
    with pytest.raises(UserError, match="no models: not now"):
        await client(handler, Waits()).model()


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://host:port"])
def test_addresses_that_are_none(url):
    with pytest.raises(UsageError, match="--server"):
        server_http(url)


async def test_address_and_key_of_a_server():
    async with server_http("http://host:1/v1/", "secret") as http:
        assert str(http.base_url) == "http://host:1" and http.headers["authorization"] == "Bearer secret"


async def test_calls_are_bounded_and_counted():
    running, most, usages = 0, 0, []

    class Asked:
        async def post(self, path, body):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return Reply(200 if body else 400, GOOD, "")

    bounded = Bounded(Asked(), 2, usages.append)
    await asyncio.gather(*(bounded.post("/", {"n": n} if n else {}) for n in range(6)))
    assert most == 2 and usages == [GOOD["usage"]] * 5
