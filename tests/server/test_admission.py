"""Limits of the context, to the token."""

from __future__ import annotations

import threading

import pytest

from tests.server.fake_engine import FakeLimits
from tests.server.parts import chat, completion, mk_context, says

LIMIT = 100
SMALL_MODEL = FakeLimits(max_model_len=LIMIT)
SMALL_POOL = FakeLimits(pool_tokens=LIMIT)
AROUND = len("<user>\n<assistant>")


def small_context(limits: FakeLimits = SMALL_MODEL, **settings):
    context = mk_context(says("ok"), **settings)
    context.engine.limits = limits
    return context


def body_of(kind: str, tokens: int, **parameters):
    if kind == "chat":
        return "/v1/chat/completions", chat("x" * (tokens - AROUND), **parameters)
    prompt = "x" * tokens if kind == "text" else [120] * tokens
    return "/v1/completions", completion(prompt, **parameters)


@pytest.mark.parametrize("kind", ["chat", "text", "ids"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("limits", [SMALL_MODEL, SMALL_POOL])
async def test_prompts_around_the_context(connect, kind, stream, limits):
    context = small_context(limits)
    client = connect(context)
    for tokens in (LIMIT - 2, LIMIT - 1):
        path, body = body_of(kind, tokens, stream=stream)
        assert (await client.post(path, json=body)).status_code == 200
        assert context.engine.submitted[-1].sampling.max_tokens == LIMIT - tokens
    for tokens in (LIMIT, LIMIT + 1, 2 * LIMIT, 10_000):
        path, body = body_of(kind, tokens, stream=stream)
        answer = await client.post(path, json=body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["code"] == "context_length_exceeded"
        assert error["param"] == ("messages" if kind == "chat" else "prompt")
        assert str(LIMIT) in error["message"] and str(tokens) in error["message"]
    path, body = body_of(kind, 50)
    assert (await client.post(path, json=body)).status_code == 200


@pytest.mark.parametrize("kind", ["chat", "text"])
async def test_huge_prompts_are_not_encoded(connect, kind):
    context = small_context()
    path, body = body_of(kind, 2_000_000)
    context.tokenizer.encode = None
    answer = await connect(context).post(path, json=body)
    assert answer.status_code == 400
    assert "100 tokens" in answer.json()["error"]["message"] and "at least 4" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_replies_around_the_context(connect, name):
    context = small_context()
    client = connect(context)
    for asked, status in ((1, 200), (LIMIT - 40, 200), (LIMIT - 39, 400), (10**8, 400)):
        path, body = body_of("chat", 40, **{name: asked})
        answer = await client.post(path, json=body)
        assert answer.status_code == status
        if status == 400:
            error = answer.json()["error"]
            assert error["param"] == name and error["code"] == "context_length_exceeded"
            assert all(number in error["message"] for number in (str(LIMIT), str(40 + asked), "60"))
        else:
            assert context.engine.submitted[-1].sampling.max_tokens == asked


async def test_a_prompt_that_fills_the_context_can_be_scored(connect):
    client = connect(small_context())
    answer = await client.post("/v1/completions", json=completion([120] * LIMIT, echo=True, logprobs=1, max_tokens=0))
    assert answer.status_code == 200


@pytest.mark.parametrize("given", [{}, {"max_tokens": None}, {"max_completion_tokens": None}])
async def test_no_limit_is_what_is_left(connect, given):
    context = small_context()
    path, body = body_of("chat", 40)
    await connect(context).post(path, json=body | given)
    assert context.engine.submitted[0].sampling.max_tokens == LIMIT - 40


async def test_the_server_can_set_a_default(connect):
    context = small_context(default_max_tokens=10)
    client = connect(context)
    for tokens, expected in ((40, 10), (95, 5)):
        path, body = body_of("text", tokens)
        await client.post(path, json=body)
        assert context.engine.submitted[-1].sampling.max_tokens == expected


async def test_min_tokens_must_fit(connect):
    path, body = body_of("text", 40, max_tokens=5, min_tokens=6)
    answer = await connect(small_context()).post(path, json=body)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "min_tokens"


async def test_one_prompt_of_many_is_too_long(connect):
    context = small_context()
    answer = await connect(context).post("/v1/completions", json=completion(["ok", "x" * LIMIT]))
    assert answer.status_code == 400
    assert context.engine.submitted == []


async def test_encoding_does_not_hold_the_event_loop(connect):
    context = mk_context(says("ok"))
    client = connect(context)
    threads = []
    encode = context.tokenizer.encode

    def watched(*arguments, **keywords):
        threads.append(threading.current_thread())
        return encode(*arguments, **keywords)

    context.tokenizer.encode = watched
    for path, body in (
        ("/v1/chat/completions", chat()),
        ("/v1/completions", completion()),
        ("/tokenize", {"prompt": "x"}),
    ):
        await client.post(path, json=body)
    assert len(threads) == 3 and threading.main_thread() not in threads


async def test_text_the_tokenizer_cannot_encode(connect):
    context = mk_context(says("ok"))

    def refuse(*arguments, **keywords):
        raise ValueError("the text holds something impossible")

    context.tokenizer.encode = refuse
    client = connect(context)
    for path, body, param in (
        ("/v1/chat/completions", chat(), "messages"),
        ("/v1/completions", completion(), "prompt"),
        ("/tokenize", {"content": "x"}, "content"),
    ):
        answer = await client.post(path, json=body)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == param


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_is_full(connect, stream):
    context = mk_context(says("ok"), max_waiting=2)
    client = connect(context)
    context.engine.hold()
    answer = await client.post("/v1/chat/completions", json=chat(n=3, stream=stream))  # all choices or none
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"] | {"message": ""} == {
        "message": "",
        "type": "overloaded_error",
        "param": None,
        "code": "engine_overloaded",
    }
    context.engine.release()
    assert context.engine.submitted == context.engine.cancelled == []
    metrics = (await client.get("/metrics")).text
    assert 'andes_requests_refused_total{code="engine_overloaded",endpoint="/v1/chat/completions"} 1.0' in metrics
    assert "andes_requests_started_total{" not in metrics


async def test_a_full_engine_costs_no_encoding(connect):
    context = mk_context(says("ok"), max_waiting=2)
    context.tokenizer.encode = None
    answer = await connect(context).post("/v1/completions", json=completion(["a", "b"], n=2))
    assert answer.status_code == 503 and "room for 2" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", chat(n=7), "n"),
        ("/v1/completions", completion(["a", "b"], n=4), "n"),
        ("/v1/completions", completion(["a"] * 7), "prompt"),
    ],
)
async def test_what_can_never_fit_is_the_call_s_fault(connect, path, body, param):
    context = small_context(FakeLimits(max_live=6))
    answer = await connect(context).post(path, json=body)
    assert answer.status_code == 400 and "retry-after" not in answer.headers
    error = answer.json()["error"]
    asked = len(body.get("prompt", "x")) * body.get("n", 1)
    assert error["param"] == param
    assert f"at most 6 replies can be asked for in one call, not {asked}" in error["message"]
    assert (await connect(context).post("/v1/completions", json=completion(["a", "b"], n=3))).status_code == 200
