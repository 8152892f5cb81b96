"""The official client against the real model: streamed or not, over HTTP/1.1 or HTTP/2, it gets the same text."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import openai
import pytest

from tests.end_to_end.replies import CHAT, COMPLETIONS, GREEDY, MODEL, TOKENIZER, Replies, body_of, expected, gather

pytestmark = pytest.mark.timeout(200)
# The bytes of 🙂 and 你 lie in several tokens: drawn at random, they also make characters that never become whole.
BYTES = {str(token): 12 for text in ("🙂", "你") for token in TOKENIZER.encode(text, add_special=False)}
DRAWN = {"temperature": 2.0, "seed": 11, "logit_bias": BYTES, "frequency_penalty": 2.0, "max_tokens": 30}
EXTRA = ("ignore_eos", "min_tokens", "top_k", "min_p", "repetition_penalty", "stop_token_ids")


@pytest.fixture(scope="module", params=["h1", "h2c"])
def client(request, server):
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="x", http_client=http(request.param), max_retries=0
    ) as made:
        made.protocol = request.param
        yield made


def http(protocol: str) -> httpx.Client:
    return httpx.Client(http1=protocol == "h1", http2=protocol == "h2c", timeout=120)


def call(client: openai.OpenAI, path: str, body: dict[str, Any]) -> Any:
    """The client's own method, to which what OpenAI does not have goes as extra_body."""
    create = client.chat.completions.create if path == CHAT else client.completions.create
    extra = {name: body[name] for name in EXTRA if name in body}
    known = {name: value for name, value in body.items() if name not in EXTRA}
    return create(model=MODEL, extra_body=extra, **known)


def stream(client: openai.OpenAI, path: str, body: dict[str, Any]) -> Replies:
    with call(client, path, {**body, "stream": True, "stream_options": {"include_usage": True}}) as chunks:
        chunks = list(chunks)
    assert chunks[-1].usage is not None and not chunks[-1].choices
    assert all(chunk.usage is None for chunk in chunks[:-1])
    return gather(chunks)


def both(client: openai.OpenAI, *calls: tuple[str, dict[str, Any]]) -> list[Replies]:
    """Make calls streamed and not, all at once; when both have said the same, what they said.

    Each has its own connection: threads that share one of httpcore's for HTTP/2 break it, whatever the server. One
    connection with many streams is for the asynchronous client below.
    """
    with ExitStack() as opened, ThreadPoolExecutor(2 * len(calls)) as threads:
        own = [client.copy(http_client=opened.enter_context(http(client.protocol))) for _ in range(2 * len(calls))]
        streams = [threads.submit(stream, each, *words) for each, words in zip(own, calls, strict=False)]
        wholes = [threads.submit(call, each, *words) for each, words in zip(own[len(calls) :], calls, strict=True)]
    replies = [gather([whole.result()]) for whole in wholes]
    for streamed, whole in zip((each.result() for each in streams), replies, strict=True):
        assert [text.encode() for text in streamed.texts] == [text.encode() for text in whole.texts]
        assert streamed.usage == whole.usage
        finishes = [whole.choices[index].finishes for index in sorted(whole.choices)]
        assert [streamed.choices[index].finishes for index in sorted(streamed.choices)] == finishes
        assert all(finish in (["stop"], ["length"]) for finish in finishes)
    return replies


def test_golden_replies(client, cases):
    names = ["english-sky", "chinese-hello", "chinese-beijing", "chinese-poem", "english-unicode"]
    chosen = [cases[name] for name in names]
    for case, replies in zip(chosen, both(client, *(body_of(case, max_tokens=24) for case in chosen)), strict=True):
        assert replies.text == expected(case, 24) and replies.finish == "length"
        prompt = len(case["prompt_ids"])
        assert replies.usage == (prompt, 24, prompt + 24)


def test_the_model_s_own_end(client, cases):
    case = cases["english-capital"]
    end = case["output_ids"].index(2)
    (replies,) = both(client, body_of(case, ignore_eos=False))
    assert replies.text == expected(case, end) and replies.finish == "stop"
    assert replies.usage is not None and replies.usage[1] == end + 1


def test_characters_in_pieces_and_halves(client):
    body = {"messages": [{"role": "user", "content": "🙂 你好"}], **DRAWN, "n": 2, "logprobs": True}
    (replies,) = both(client, (CHAT, body))
    assert replies.texts[0] != replies.texts[1]
    for reply in replies.choices.values():
        sent = b"".join(bytes(entry["bytes"]) for entry in reply.logprobs)
        assert reply.text == sent.decode(errors="replace")
        assert sum("\N{REPLACEMENT CHARACTER}" in entry["token"] for entry in reply.logprobs) > 3


def test_several_prompts_and_choices(client, cases):
    chosen = [cases[name] for name in ("english-history", "chinese-science", "code-json")]
    text_body = {"prompt": [case["text"] for case in chosen], "max_tokens": 10, **GREEDY}
    ids_body = {"prompt": [case["prompt_ids"] for case in chosen], "n": 2, "max_tokens": 10, **GREEDY}
    texts, ids = both(client, (COMPLETIONS, text_body), (COMPLETIONS, ids_body))
    wanted = [expected(case, 10) for case in chosen]
    assert texts.texts == wanted
    assert ids.texts == [text for text in wanted for _ in range(2)]
    prompt = sum(len(case["prompt_ids"]) for case in chosen)
    assert texts.usage == (prompt, 3 * 10, prompt + 3 * 10) and ids.usage == (prompt, 6 * 10, prompt + 6 * 10)


def test_the_prompt_echoed_with_its_probabilities(client, cases):
    case = cases["chinese-poem"]
    body = {"prompt": case["text"], "echo": True, "logprobs": 1, "max_tokens": 12, **GREEDY}
    (replies,) = both(client, (COMPLETIONS, body))
    assert replies.text == case["text"] + expected(case, 12)
    tokens = replies.choices[0].logprobs
    assert len(tokens) == len(case["prompt_ids"]) + 12 and tokens[0][1] is None
    assert all(logprob <= 0 for _, logprob, _ in tokens[1:])
    streamed = stream(client, COMPLETIONS, body).choices[0].logprobs
    assert [(text, offset) for text, _, offset in streamed] == [(text, offset) for text, _, offset in tokens]
    assert [each for _, each, _ in streamed[1:]] == pytest.approx([each for _, each, _ in tokens[1:]], abs=1e-3)
    starts = [offset for _, _, offset in tokens]
    assert starts == sorted(starts) and starts[0] == 0
    for text, _, offset in tokens:
        assert text.startswith("bytes:") or replies.text.startswith(text, offset)


def test_nothing_but_the_echo(client, cases):
    case = cases["english-history"]
    (replies,) = both(client, (COMPLETIONS, {"prompt": case["prompt_ids"], "echo": True, "max_tokens": 0}))
    count = len(case["prompt_ids"])
    assert (replies.text, replies.finish, replies.usage) == (case["text"], "length", (count, 0, count))


@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2c"])
async def test_all_at_once(server, cases, http2):
    """More calls than slots, on one connection or many, streamed and whole."""
    chosen = [case for name, case in cases.items() if name.startswith(("chinese", "code"))]
    limits = httpx.Limits(max_connections=1 if http2 else 50)
    http = httpx.AsyncClient(http1=not http2, http2=http2, limits=limits, timeout=120)
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", http_client=http, max_retries=0) as client:

        async def one(case: dict[str, Any], streamed: bool) -> Replies:
            answer = await call(client, *body_of(case, max_tokens=16, stream=streamed))
            return gather([chunk async for chunk in answer] if streamed else [answer])

        replies = await asyncio.gather(*(one(case, number % 3 > 0) for number, case in enumerate(chosen)))
    assert [reply.text for reply in replies] == [expected(case, 16) for case in chosen]
    assert {reply.finish for reply in replies} == {"length"}
