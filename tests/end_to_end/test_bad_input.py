"""Input that a real server must turn away: it says what is wrong, keeps nothing, and serves the next call."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.end_to_end.replies import CHAT, COMPLETIONS, assert_golden
from tests.end_to_end.server_process import CONTEXT, assert_nothing_held

pytestmark = pytest.mark.timeout(150)
HELLO = '{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2'


def ids(count: int) -> str:
    return f'{{"prompt": [{", ".join(["40"] * count)}]'


REFUSED: dict[str, tuple[str, bytes | str, str | None]] = {  # path, body, the parameter at fault
    "context, no room for a reply": (COMPLETIONS, ids(CONTEXT) + "}", "prompt"),
    "context and a token asked for": (COMPLETIONS, ids(CONTEXT) + ', "max_tokens": 1}', "prompt"),
    "context + 1": (COMPLETIONS, ids(CONTEXT + 1) + ', "max_tokens": 0}', "prompt"),
    "twice the context": (COMPLETIONS, ids(2 * CONTEXT) + "}", "prompt"),
    "a long conversation": (CHAT, '{"messages": [{"role": "user", "content": "%s"}]}' % ("word " * 2000), "messages"),
    "a megabyte and more": (CHAT, '{"messages": [{"role": "user", "content": "%s"}]}' % ("字" * 700_000), "messages"),
    "one token too many": (COMPLETIONS, ids(CONTEXT - 8) + ', "max_tokens": 9}', "max_tokens"),
    "huge max_tokens": (CHAT, HELLO[:-1] + "1000000000}", "max_tokens"),
    "max_tokens past 64 bits": (CHAT, HELLO[:-1] + "1" + "0" * 40 + "}", "max_tokens"),
    "negative max_tokens": (CHAT, HELLO[:-1] + "-1}", "max_tokens"),
    "NaN": (CHAT, HELLO + ', "temperature": NaN}', None),
    "Infinity": (CHAT, HELLO + ', "top_p": Infinity}', None),
    "a number past floats": (CHAT, HELLO + ', "temperature": 1e999}', None),
    "a number as text": (CHAT, HELLO + ', "temperature": "1"}', "temperature"),
    "cut off": (CHAT, HELLO, None),
    "empty": (CHAT, "", None),
    "not an object": (CHAT, "[1]", None),
    "not UTF-8": (CHAT, b'{"prompt": "\xff\xfe"}', None),
    "half a surrogate pair": (COMPLETIONS, '{"prompt": "\\ud83d", "max_tokens": 2}', None),
    "deep": (CHAT, "[" * 100_000, None),
    "no such token": (COMPLETIONS, '{"prompt": [49152]}', "prompt"),
    "a negative token": (COMPLETIONS, '{"prompt": [-1]}', "prompt"),
    "an empty prompt": (COMPLETIONS, '{"prompt": ""}', "prompt"),
    "no prompts": (COMPLETIONS, '{"prompt": []}', "prompt"),
    "one bad prompt of three": (COMPLETIONS, '{"prompt": [[1], [2], [50000]]}', "prompt"),
    "too many choices": (CHAT, HELLO + ', "n": 100000}', "n"),
    "an empty stop string": (CHAT, HELLO + ', "stop": [""]}', "stop"),
    "a bias of no token": (CHAT, HELLO + ', "logit_bias": {"60000": 1}}', "logit_bias"),
    "tools": (CHAT, HELLO + ', "tools": [{"type": "function", "function": {"name": "f"}}]}', "tools"),
    "a schema": (CHAT, HELLO + ', "response_format": {"type": "json_object"}}', "response_format"),
    "a template's objection": (CHAT, '{"messages": [{"role": "nobody", "content": "hi"}]}', None),
}


@pytest.fixture(scope="module", params=["h1", "h2c"])
def client(request, server):
    with httpx.Client(
        base_url=server.url, http1=request.param == "h1", http2=request.param == "h2c", timeout=60
    ) as made:
        yield made


def post(client: httpx.Client, path: str, body: bytes | str, stream: bool) -> httpx.Response:
    content = body.encode() if isinstance(body, str) else body
    if stream and content.startswith(b"{") and content.endswith(b"}"):
        content = content[:-1] + b', "stream": true}'
    return client.post(path, content=content, headers={"content-type": "application/json"})


def test_each_is_refused_with_its_reason(server, client):
    for name, (path, body, param) in REFUSED.items():
        for stream in (False, True):
            answer = post(client, path, body, stream)
            assert answer.status_code == 400, (name, answer.status_code, answer.text[:300])
            error: dict[str, Any] = answer.json()["error"]
            assert error["type"] == "invalid_request_error" and error["message"], name
            assert param is None or error["param"] == param, (name, error)
            assert len(answer.content) < 1000, name
    assert_nothing_held(server.url)
    assert_golden(server.url, "english-history")


def test_the_numbers_are_told(client):
    error = post(client, COMPLETIONS, ids(CONTEXT + 1) + "}", True).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert f"{CONTEXT}" in error["message"] and f"{CONTEXT + 1}" in error["message"]
    error = post(client, COMPLETIONS, ids(CONTEXT - 8) + ', "max_tokens": 9}', False).json()["error"]
    assert error["code"] == "context_length_exceeded" and f"{8}" in error["message"]


def test_just_fitting(server, client):
    full = post(client, COMPLETIONS, ids(CONTEXT - 8) + ', "max_tokens": 8, "ignore_eos": true}', False).json()
    assert full["usage"]["total_tokens"] == CONTEXT and full["choices"][0]["finish_reason"] == "length"
    open_ended = post(client, COMPLETIONS, ids(CONTEXT - 5) + ', "ignore_eos": true}', False).json()
    assert open_ended["usage"]["total_tokens"] == CONTEXT and open_ended["choices"][0]["finish_reason"] == "length"
    nothing = post(client, COMPLETIONS, ids(CONTEXT) + ', "max_tokens": 0}', False).json()
    assert nothing["usage"]["total_tokens"] == CONTEXT
    assert_nothing_held(server.url)


def test_wrong_addresses(server, client):
    assert client.post("/v1/nothing", json={}).status_code == 404
    assert client.get(CHAT).status_code == 405
    body = {"model": "gpt-4", "messages": [{"role": "user", "content": "hi"}]}
    assert client.post(CHAT, json=body).json()["error"]["code"] == "model_not_found"
    large = client.post(CHAT, content=b" " * (16 * 1024 * 1024 + 1), headers={"content-type": "application/json"})
    assert large.status_code == 413
    assert_golden(server.url, "english-history")
