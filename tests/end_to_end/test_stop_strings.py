"""Stop strings end the real model's replies exactly where they begin, wherever tokens are cut."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.end_to_end.replies import TOKENIZER, Replies, body_of, expected, read_events

pytestmark = pytest.mark.timeout(200)
LENGTHS = range(1, 13)
TOKENS = 32


def stops_in(text: str) -> list[str]:
    """A stop string of every length, from offsets that have nothing to do with tokens."""
    return [text[offset : offset + length] for length in LENGTHS for offset in [(17 * length + 3) % (len(text) - 14)]]


def tokens_until(ids: list[int], stop: str) -> int:
    """How many tokens it takes until the stop string is there."""
    return next(count for count in range(1, len(ids) + 1) if stop in TOKENIZER.decode(ids[:count]))


async def ask(client: httpx.AsyncClient, case: dict[str, Any], stop: Any, stream: bool) -> Replies:
    path, body = body_of(case, max_tokens=TOKENS, stop=stop, stream=stream)
    if stream:
        body["stream_options"] = {"include_usage": True}
    if not stream:
        replies = Replies(done=True)
        replies.add((await client.post(path, json=body)).json())
        return replies
    async with client.stream("POST", path, json=body) as answer:
        return read_events([line async for line in answer.aiter_lines()])


@pytest.mark.parametrize(("name", "stream"), [("english-sky", True), ("english-sky", False), ("chinese-beijing", True)])
async def test_text_ends_where_the_stop_string_begins(server, cases, name, stream):
    case = cases[name]
    text, ids = expected(case, TOKENS), case["output_ids"][:TOKENS]
    stops = stops_in(text)
    assert len({tokens_until(ids, stop) for stop in stops}) > 3
    async with httpx.AsyncClient(base_url=server.url, http1=not stream, http2=stream, timeout=120) as client:
        replies = await asyncio.gather(*(ask(client, case, stop, stream) for stop in stops))
    for stop, reply in zip(stops, replies, strict=True):
        assert reply.text == text[: text.index(stop)], stop
        assert reply.finish == "stop" and reply.done
        assert reply.usage is not None and reply.usage[1] == tokens_until(ids, stop), stop


async def test_of_several_the_first_in_the_text_counts(server, cases):
    case = cases["english-sky"]
    text = expected(case, TOKENS)
    beginning_only = text[60:70] + "\N{BLACK STAR}"  # held back, then let go
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
        several = await ask(client, case, [text[120:123], beginning_only, text[91:97]], True)
        none = await ask(client, case, [beginning_only, "\N{BLACK STAR}"], True)
        emoji = await ask(client, {**case, "text": "🌟"}, "🌟" * 50, True)
    assert several.text == text[: min(text.index(text[120:123]), text.index(text[91:97]))]
    assert several.finish == "stop"
    assert (none.text, none.finish) == (text, "length")
    assert emoji.finish == "length"
