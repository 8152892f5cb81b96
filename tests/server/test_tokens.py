"""Tokenizing over HTTP."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

from server.routes.tokens import MOST_WAITING
from server.schemas.tokens import MAX_TOKENS
from tests.server.live import live_server
from tests.server.parts import chat, mk_context, says
from tests.server.waiting import wait_for


@pytest.mark.parametrize("text", ["", "abc", "日本語 🙂", "a    b\n\n  c", "\x00"])
@pytest.mark.parametrize("name", ["prompt", "content"])
async def test_there_and_back(connect, text, name):
    client = connect()
    answer = (await client.post("/tokenize", json={name: text})).json()
    assert answer["tokens"] == list(text.encode()) and answer["count"] == len(answer["tokens"])
    assert answer["max_model_len"] == 2048
    back = (await client.post("/detokenize", json={"tokens": answer["tokens"]})).json()
    assert back["prompt"] == back["content"] == text


async def test_a_conversation(connect):
    messages = [{"role": "user", "content": "hi"}]
    for generation, end in ((True, "<assistant>"), (False, "")):
        body = {"messages": messages, "add_generation_prompt": generation}
        tokens = (await connect().post("/tokenize", json=body)).json()["tokens"]
        assert bytes(tokens).decode() == f"<user>hi\n{end}"


async def test_special_tokens_are_shown_unless_skipped(connect):
    client = connect()
    assert (await client.post("/detokenize", json={"tokens": [97, 256]})).json()["prompt"] == "a<eos>"
    body = {"tokens": [97, 256], "skip_special_tokens": True}
    assert (await client.post("/detokenize", json=body)).json()["prompt"] == "a"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "content": "b"}, "prompt"),
        ("/tokenize", {"prompt": 3}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ("/tokenize", {"prompt": "a", "more": 1}, "more"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "abc"}, "tokens"),
        ("/detokenize", {"tokens": [257]}, "tokens"),
        ("/detokenize", {"tokens": [2**80]}, "tokens"),
        ("/detokenize", {"tokens": [1, -1]}, "tokens[1]"),
        ("/detokenize", {"tokens": [True]}, "tokens[0]"),
        ("/detokenize", {"tokens": [1.0]}, "tokens[0]"),
    ],
)
async def test_bad_calls_name_the_parameter(connect, path, body, param):
    answer = await connect().post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("name", ["prompt", "messages"])
async def test_text_that_can_never_fit_is_not_encoded(connect, name):
    context = mk_context(says("x"))
    context.tokenizer.encode = None
    text = "x" * 12_000_000
    body = {"messages": [{"role": "user", "content": text[:8_000_000]}]} if name == "messages" else {name: text}
    answer = await connect(context).post("/tokenize", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", name) and "2048" in error["message"]


async def test_too_many_tokens_to_show(connect):
    answer = await connect().post("/detokenize", json={"tokens": [1] * (MAX_TOKENS + 1)})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tokens"


@pytest.fixture
def stuck():
    """A context whose texts that begin with "slow" take until `go` is set, and the list of texts encoded."""
    context = mk_context(says("hello"))
    go, encoded = threading.Event(), []
    encode = context.tokenizer.encode

    def slow(text: str, **keywords):
        encoded.append(text)
        if text.startswith("slow"):
            go.wait(10)
        return encode(text, **keywords)

    context.tokenizer.encode = slow
    yield context, go, encoded
    go.set()


async def test_tokenizing_keeps_no_generation_waiting_and_has_a_bound(connect, stuck):
    context, go, _ = stuck
    client = connect(context)
    calls = [asyncio.create_task(client.post("/tokenize", json={"prompt": "slow"})) for _ in range(MOST_WAITING + 5)]
    refused, rest = await asyncio.wait(calls, timeout=0.5)
    assert len(refused) == 5 and all(call.result().status_code == 503 for call in refused)
    assert all(call.result().headers["retry-after"] == "1" for call in refused)
    answer = await asyncio.wait_for(client.post("/v1/chat/completions", json=chat()), 5)
    assert answer.json()["choices"][0]["message"]["content"] == "hello"
    go.set()
    assert {(await call).status_code for call in rest} == {200}


def test_text_of_a_client_that_left_is_not_encoded(stuck):
    context, go, encoded = stuck
    with live_server(context) as server, httpx.Client(base_url=server.url) as client:
        for text in ("slow first", "second"):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(server.url + "/tokenize", json={"prompt": text}, timeout=0.3)
        assert wait_for(lambda: server.counts()["calls"] == 0)
        go.set()
        assert client.post("/tokenize", json={"prompt": "third"}).status_code == 200
    assert encoded == ["slow first", "third"]
