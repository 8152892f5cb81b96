"""What is found out about a server before a run, and the requests that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from andes_jax.loadtest import dialect
from andes_jax.loadtest.connections import Connections, parse_url
from andes_jax.loadtest.dialect import Endpoint, ServerError, discover
from andes_jax.loadtest.prompts import Prompts
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrival import Arrival
from tests.unit.loadtest.scripted import STREAM_HEAD, Peer, answer, ending, event, scripted_server

PROMPTS = Prompts(seed=1)
Judge = Callable[[dict[str, Any]], dict[str, Any] | None]


def peer_with(judge: Judge, models: Any, seen: list[dict[str, Any]] | None = None, status: int = 400):
    """A server with a list of models, that answers completions unless `judge` finds an error in them."""

    async def script(peer: Peer) -> None:
        while True:
            body = await peer.request()
            if peer.head.startswith(b"GET"):
                peer.send(answer(models, 200 if models else 404))
                continue
            if seen is not None:
                seen.append(body)
            error = judge(body)
            peer.send(answer({"error": error}, status) if error else b"".join([STREAM_HEAD, event("a"), ending(1)]))

    return script


async def found(script, **options) -> Endpoint:
    options = {"model": None, "api_key": None, "andes": None, **options}
    async with scripted_server(script) as server:
        connections = Connections(parse_url(server.url))
        try:
            return await discover(connections, PROMPTS, **options)
        finally:
            connections.close()


def body_of(endpoint: Endpoint, **arrival) -> dict[str, Any]:
    request = endpoint.request(Arrival(0.0, 5, 7, **arrival), PROMPTS, 0)
    head, _, body = request.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    return orjson.loads(body)


def listing(owner: str = "vllm", **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m1", "owned_by": owner, **more}, {"id": "m2", "owned_by": owner}]}


async def test_a_server_that_takes_everything():
    endpoint = await found(peer_with(lambda body: None, listing(max_model_len=512)))
    assert (endpoint.model, endpoint.longest, endpoint.native, endpoint.losses) == ("m1", 512, False, [])
    body = body_of(endpoint, tier=Tier.REALTIME, qoe=QoeTarget(1.0, 5.0))
    assert len(body.pop("prompt")) == 5
    assert body == {
        "model": "m1",
        "max_tokens": 7,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "ignore_eos": True,
    }


async def test_only_andes_jax_hears_of_tiers_and_readers():
    endpoint = await found(peer_with(lambda body: None, listing("andes-jax")))
    reader = QoeTarget(0.5, 4.0)
    realtime = body_of(endpoint, tier=Tier.REALTIME, qoe=reader)
    expected = {"expected_ttft_ms": 500.0, "expected_tokens_per_s": 4.0}
    assert (realtime["service_tier"], realtime["andes"]) == ("priority", expected)
    streaming = body_of(endpoint, tier=Tier.STREAMING, qoe=reader)
    assert "service_tier" not in streaming and streaming["andes"] == {**expected, "tier": "streaming"}
    batch = body_of(endpoint, tier=Tier.BATCH)
    assert batch["service_tier"] == "flex" and "andes" not in batch
    forced = await found(peer_with(lambda body: None, listing()), andes=True)
    assert "andes" in body_of(forced, qoe=reader)
    unsaid = await found(peer_with(lambda body: None, listing("andes-jax")), andes=False)
    assert {"andes", "service_tier"}.isdisjoint(body_of(unsaid, qoe=reader))


async def test_what_a_server_names_is_given_up_and_nothing_else():
    def judge(body: dict[str, Any]) -> dict[str, Any] | None:
        if "continuous_usage_stats" in body["stream_options"]:
            return {"message": "Unrecognized request argument supplied: stream_options.continuous_usage_stats."}
        if not isinstance(body["prompt"], str):
            return {"message": "must be a string", "param": "prompt"}
        return None

    endpoint = await found(peer_with(judge, listing()))
    assert endpoint.features == {"ignore_eos"}
    assert len(endpoint.losses) == 2 and "must be a string" in endpoint.losses[1]
    assert len(body_of(endpoint)["prompt"].split()) == 5


async def test_a_server_that_names_nothing_ends_at_the_plain_api():
    seen: list[dict[str, Any]] = []
    plain = {"model", "prompt", "max_tokens", "temperature", "stream", "stream_options"}

    def judge(body: dict[str, Any]) -> dict[str, Any] | None:
        return None if set(body) == plain and isinstance(body["prompt"], str) else {"message": "no"}

    endpoint = await found(peer_with(judge, listing("andes-jax"), seen, status=422))
    assert endpoint.features == frozenset() and len(seen) == 6


async def test_a_model_by_name_and_a_server_without_a_list():
    endpoint = await found(peer_with(lambda body: None, None), model="mine")
    assert (endpoint.model, endpoint.native, endpoint.longest) == ("mine", False, None)
    assert (await found(peer_with(lambda body: None, listing()), model="m2")).model == "m2"
    with pytest.raises(ServerError, match="--model"):
        await found(peer_with(lambda body: None, None))


async def test_the_key_is_sent_and_asked_for():
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            known = b"authorization: Bearer secret" in peer.head
            whole = answer(listing()) if peer.head.startswith(b"GET") else STREAM_HEAD + event("a") + ending(1)
            peer.send(whole if known else answer({"error": {"message": "no key"}}, 401))

    endpoint = await found(script, api_key="secret")
    assert endpoint.model == "m1" and "secret" not in repr(endpoint)
    with pytest.raises(ServerError, match="no key; give the key with --api-key"):
        await found(script)


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_a_server_that_takes_nothing(status):
    with pytest.raises(ServerError, match=f"HTTP {status}: never"):
        await found(peer_with(lambda body: {"message": "never"}, listing(), status=status))


async def test_a_server_that_never_answers(monkeypatch):
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.reader.read()

    monkeypatch.setattr(dialect, "ANSWER_TIMEOUT_S", 0.1)
    with pytest.raises(ServerError, match="no answer in 0.1 s"):
        await found(silent)
