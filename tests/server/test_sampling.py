"""Parameters of generation: each fault is a 400 that names it, before any stream begins; each legal set is served."""

from __future__ import annotations

import json

import pytest

from andes_jax.request import Tier
from tests.server.parts import chat, completion, mk_context, says

BAD = [
    ("temperature", value) for value in (-0.1, 2.1, "1", True, [], {})
] + [("top_p", value) for value in (0, -0.5, 1.0001, "x", False)] + [
    ("top_k", value) for value in (-2, 1.5, 2**31, True)
] + [("min_p", value) for value in (-0.1, 1.1, True)] + [
    (name, value) for name in ("presence_penalty", "frequency_penalty") for value in (-2.1, 2.1, "0", True)
] + [("repetition_penalty", value) for value in (0, -1, 10.5, True)] + [
    ("seed", value) for value in (1.5, "1", True, 2**64, -(2**63) - 1)
] + [("n", value) for value in (0, -1, 17, 1.0, True, "1")] + [
    ("max_tokens", value) for value in (-1, 1.5, "1", True, 100_000_000, 2**70)
] + [("stop", value) for value in ("", [""], ["a"] * 17, 3, [3], {"a": 1}, True, "x" * 1025)] + [
    ("stop_token_ids", value) for value in (3, "3", [257], ["3"], [1] * 17)
] + [("ignore_eos", value) for value in (1, "true")] + [("min_tokens", value) for value in (-1, True, 2048)] + [
    ("stream", value) for value in (1, "true", "yes")
] + [("stream_options", {"include_usage": True}), ("stream_options", [])] + [
    ("service_tier", value) for value in ("scale", "", 1, "PRIORITY")
] + [("store", True), ("skip_special_tokens", 0), ("prompt_cache_key", 3)] + [
    ("logit_bias", value)
    for value in (
        [], "x", {"a": 1}, {"-1": 1}, {"1.0": 1}, {"257": 1}, {"1": 101}, {"1": -100.5}, {"1": "1"}, {"1": True},
        {"1": None}, {"٣": 1}, {str(number): 1 for number in range(301)}, {"9" * 50: 1},
    )
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
@pytest.mark.parametrize("make", [chat, completion])
async def test_bad_values_name_the_parameter(connect, name, value, make):
    context = mk_context(says("x"))
    client = connect(context)
    for stream in (False, True):
        if stream and name in ("stream", "stream_options"):
            continue
        body = make(**{name: value}) | ({"stream": True} if stream else {})
        answer = await client.post("/v1/chat/completions" if make is chat else "/v1/completions", json=body)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert (error["param"] or "").split("[")[0] == name, error
    assert context.engine.submitted == []


@pytest.mark.parametrize("name", ["modle", "best-of", "__class__", "x" * 1000, "<b>", "用户", "a\nb", ""])
@pytest.mark.parametrize("make", [chat, completion])
async def test_unknown_names_are_refused(connect, name, make):
    path = "/v1/chat/completions" if make is chat else "/v1/completions"
    answer = await connect().post(path, json=make(**{name: 1}))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "unknown_parameter" and error["message"].startswith("Unrecognized request argument")
    assert len(error["message"]) < 200 and "\n" not in error["message"]


@pytest.mark.parametrize(
    "extra", [{"user": "me"}, {"metadata": {"a": "b"}}, {"store": False}, {"safety_identifier": "x"}]
)
@pytest.mark.parametrize("make", [chat, completion])
async def test_harmless_names_are_taken(connect, extra, make):
    path = "/v1/chat/completions" if make is chat else "/v1/completions"
    assert (await connect().post(path, json=make(**extra))).status_code == 200


async def test_null_is_the_same_as_nothing(connect):
    names = {name for name, _ in BAD} | {"tools", "response_format", "logprobs", "top_logprobs", "user"}
    body = chat(**dict.fromkeys(names))
    assert (await connect().post("/v1/chat/completions", json=body)).status_code == 200


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [(0, 0), (1, 1), (2**63 - 1, 2**63 - 1), (-1, 2**63 - 1), (-(2**63), 0), (2**63, 0), (2**64 - 1, 2**63 - 1)],
)
async def test_seeds_become_63_bits(connect, seed, drawn):
    context = mk_context(says("x"))
    body = json.dumps(chat(seed=seed)).encode()
    headers = {"content-type": "application/json"}
    assert (await connect(context).post("/v1/chat/completions", content=body, headers=headers)).status_code == 200
    assert context.engine.submitted[0].sampling.seed == drawn


async def test_without_a_seed_every_call_draws_anew(connect):
    context = mk_context(says("x"))
    client = connect(context)
    await client.post("/v1/completions", json=completion(["same", "same"]))
    await client.post("/v1/completions", json=completion("same"))
    seeds = {request.sampling.seed for request in context.engine.submitted}
    assert len(seeds) == 3 and all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    ("tier", "stream", "expected", "shown"),
    [
        (None, True, Tier.REALTIME, "default"),
        (None, False, Tier.STREAMING, "default"),
        ("auto", True, Tier.REALTIME, "default"),
        ("default", False, Tier.STREAMING, "default"),
        ("priority", False, Tier.REALTIME, "priority"),
        ("flex", True, Tier.BATCH, "flex"),
    ],
)
async def test_service_tiers(connect, tier, stream, expected, shown):
    context = mk_context(says("x"))
    answer = await connect(context).post("/v1/chat/completions", json=chat(service_tier=tier, stream=stream))
    assert f'"service_tier":"{shown}"' in answer.text
    [request] = context.engine.submitted
    assert request.tier is expected
    assert (request.qoe is None) == (expected is Tier.BATCH)


async def test_everything_reaches_the_engine(connect):
    context = mk_context(says("x"))
    given = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "presence_penalty": -1.5,
        "frequency_penalty": 1,
        "repetition_penalty": 1.2,
    }
    body = chat(
        **given,
        logit_bias={"97": 5, "98": -100},
        stop=["a", "b"],
        stop_token_ids=[5],
        min_tokens=2,
        max_tokens=9,
        skip_special_tokens=False,
        prompt_cache_key="s",
    )
    assert (await connect(context).post("/v1/chat/completions", json=body)).status_code == 200
    [request] = context.engine.submitted
    for name, value in given.items():
        assert getattr(request.sampling, name) == value
    assert request.sampling.logit_bias == ((97, 5.0), (98, -100.0))
    assert request.sampling.stop_ids == (256, 5)
    assert (request.sampling.min_tokens, request.sampling.max_tokens) == (2, 9)
    assert request.stop == ("a", "b") and request.session == "s" and not request.skip_special_tokens


@pytest.mark.parametrize(("given", "ids"), [({}, (256,)), ({"ignore_eos": True}, ())])
async def test_ignoring_the_end(connect, given, ids):
    context = mk_context(says("x"))
    await connect(context).post("/v1/chat/completions", json=chat(max_tokens=3, **given))
    assert context.engine.submitted[0].sampling.stop_ids == ids


async def test_top_k_of_minus_one_is_everything(connect):
    context = mk_context(says("x"))
    await connect(context).post("/v1/chat/completions", json=chat(top_k=-1))
    assert context.engine.submitted[0].sampling.top_k == 0
