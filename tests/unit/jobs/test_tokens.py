"""Tokens by the server's count, and estimates where it has none."""

from __future__ import annotations

import json

import httpx
import pytest

from andes_jax.failure import UserError
from andes_jax.jobs.tokens import LONGEST, TokenCounter, estimated, parts_of
from tests.server.parts import mk_context
from tests.unit.jobs.parts import Waits, client


async def test_texts_and_conversations_are_counted_as_the_model_gets_them(connect):
    from andes_jax.jobs.client import HttpClient

    counter = TokenCounter(HttpClient(connect(mk_context()), patience=Waits().patience))
    assert await counter.text("天a") == 4 and await counter.text("") == 0
    assert await counter.messages([{"role": "user", "content": "hi"}]) == len("<user>hi\n<assistant>")
    assert not counter.estimates
    with pytest.raises(UserError, match="does not count.*alternate"):
        await counter.messages([{"role": "tool", "tool_call_id": "x", "content": "hi"}])


@pytest.mark.parametrize("text", ["word " * 9000, "天" * 20_000, "line\n" * 5000 + "x" * 9000, "short", ""])
def test_long_texts_are_counted_in_parts(text):
    parts = list(parts_of(text))
    assert "".join(parts) == text and all(0 < len(part) <= LONGEST for part in parts)
    assert all(part.endswith(("\n", " ", "天", "x")) for part in parts[:-1])


async def test_the_beginning_of_a_prompt_is_counted_once(connect):
    from andes_jax.jobs.client import HttpClient

    counter = TokenCounter(HttpClient(connect(mk_context()), patience=Waits().patience))
    assert await counter.text("word " * 9000, special=True) == 45_000


async def test_a_server_without_counts_is_asked_once_and_estimated():
    asked = []

    def handler(request):
        asked.append(json.loads(request.content))
        return httpx.Response(404, json={"error": {"message": "no such route"}})

    counter = TokenCounter(client(handler, Waits()))
    assert await counter.text("abcd") == 2
    assert await counter.messages([{"role": "user", "content": "abc"}]) > 1
    assert counter.estimates and len(asked) == 1


def test_estimates_are_cautious():
    assert (estimated("abc" * 10), estimated("天" * 10), estimated("a天")) == (10, 15, 3)
