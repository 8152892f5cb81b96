"""Tokenizing over HTTP."""

from __future__ import annotations

import pytest


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
