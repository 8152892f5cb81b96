"""Bodies that are not what they should be, in process and over both protocols."""

from __future__ import annotations

import json

import httpx
import pytest

from server.body import parse_object
from server.errors import ApiError
from tests.server.parts import chat, mk_context, says

PATHS = ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize")
DEEP = 100_000
MALFORMED = {
    "empty": b"",
    "blank": b"  \n",
    "array": b"[]",
    "null": b"null",
    "string": b'"x"',
    "number": b"3",
    "broken": b'{"model": "m"',
    "two values": b"{}{}",
    "single quotes": b"{'model': 'm'}",
    "NaN": b'{"temperature": NaN}',
    "Infinity": b'{"temperature": Infinity}',
    "minus Infinity": b'{"temperature": -Infinity}',
    "overflow": b'{"temperature": 1e999}',
    "long integer": b'{"seed": ' + b"9" * 5000 + b"}",
    "deep arrays": b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "not UTF-8": b'{"model": "\xff\xfe"}',
    "UTF-16": '{"model": "m"}'.encode("utf-16"),
    "BOM": b"\xef\xbb\xbf{}",
    "lone surrogate": b'{"model": "\\ud800"}',
    "repeated name": b'{"model": "a", "model": "b"}',
    "repeated name inside": b'{"messages": [{"role": "user", "role": "user", "content": "x"}]}',
}


def assert_error(response: httpx.Response, status: int) -> dict[str, object]:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str) and error["message"]
    return error


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_bodies_are_400(connect, path, name):
    client = connect()
    response = await client.post(path, content=MALFORMED[name], headers={"content-type": "application/json"})
    assert assert_error(response, 400)["code"] == "invalid_json"
    assert (await client.post("/tokenize", json={"prompt": "x"})).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_only_json_is_taken(connect, kind):
    response = await connect().post("/tokenize", content=b'{"prompt": "x"}', headers={"content-type": kind})
    assert assert_error(response, 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"])
async def test_spellings_of_json(connect, kind):
    response = await connect().post("/tokenize", content=b'{"prompt": "x"}', headers={"content-type": kind})
    assert response.status_code == 200


async def test_sizes_around_the_limit(connect):
    client = connect(mk_context(says("x"), max_body_bytes=1024))
    empty = len(json.dumps({"prompt": ""}))
    for length, status in ((1023, 200), (1024, 200), (1025, 413), (5000, 413)):
        body = json.dumps({"prompt": "x" * (length - empty)}).encode()

        async def chunks(body: bytes = body):
            for at in range(0, len(body), 100):
                yield body[at : at + 100]

        headers = {"content-type": "application/json"}
        for content in (body, chunks()):  # with its length announced, and without
            assert (await client.post("/tokenize", content=content, headers=headers)).status_code == status


async def test_bodies_held_at_once_are_bounded(connect):
    client = connect(mk_context(says("x"), max_pending_body_bytes=500))
    response = await client.post("/tokenize", json={"prompt": "x" * 600})
    assert assert_error(response, 503)["code"] == "engine_overloaded"
    for _ in range(5):  # what was held is given back, also by the refused one
        assert (await client.post("/tokenize", json={"prompt": "x" * 400})).status_code == 200


def test_slow_body_is_timed_out_and_hurts_nobody(start):
    server = start(says("ok"), body_timeout_s=0.3)
    import socket

    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b'content-length: 1000\r\n\r\n{"mod'
        )
        assert httpx.post(f"{server.url}/v1/chat/completions", json=chat()).status_code == 200
        slow.settimeout(5)
        assert slow.recv(65536).startswith(b"HTTP/1.1 408")
    assert server.counts()["calls"] == 0


def test_large_bodies_are_parsed():
    assert parse_object(b'{"a": "' + b"x" * 1_000_000 + b'"}')["a"] == "x" * 1_000_000


def test_messages_do_not_quote_the_input():
    with pytest.raises(ApiError) as raised:
        parse_object(b'{"secret-secret": secret}')
    assert "secret" not in raised.value.message
