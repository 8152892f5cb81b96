"""The official client, in all its ways."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest

from tests.server.parts import MODEL, says

TEXT = "你好 🙂, hello    world\n"
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(params=["h1", "h2c"])
def client(request, start):
    server = start(says(TEXT), api_keys=("key",))
    http = httpx.Client(http1=request.param == "h1", http2=request.param == "h2c")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="key", http_client=http, max_retries=0) as made:
        made.server = server
        yield made


def test_chat(client):
    reply = client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert reply.choices[0].message.content == TEXT and reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.prompt_tokens_details.cached_tokens == 0 and reply.service_tier == "default"
    again = [*MESSAGES, reply.choices[0].message, {"role": "user", "content": "more"}]
    assert client.chat.completions.create(model=MODEL, messages=again).choices[0].message.content == TEXT


def test_chat_streams(client):
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, n=2, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    for index in range(2):
        own = [each.choices[0] for each in chunks if each.choices and each.choices[0].index == index]
        assert "".join(choice.delta.content or "" for choice in own) == TEXT
        assert own[0].delta.role == "assistant" and own[-1].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == 2 * (len(TEXT.encode()) + 1)


def test_completions(client):
    reply = client.completions.create(model=MODEL, prompt=["a", "b"], logprobs=2, echo=True)
    assert [choice.text for choice in reply.choices] == ["a" + TEXT, "b" + TEXT]
    stream = client.completions.create(model=MODEL, prompt="a", stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == TEXT


def test_log_probabilities(client):
    reply = client.chat.completions.create(model=MODEL, messages=MESSAGES, logprobs=True, top_logprobs=2)
    content = reply.choices[0].logprobs.content
    assert bytes(byte for entry in content for byte in entry.bytes).decode() == TEXT
    assert all(len(entry.top_logprobs) == 2 for entry in content)


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError) as raised:
        client.models.retrieve("nope")
    assert raised.value.code == "model_not_found" and raised.value.param == "model"


def test_errors_become_the_client_s(client):
    chat = client.chat.completions
    with pytest.raises(openai.BadRequestError) as raised:
        chat.create(model=MODEL, messages=MESSAGES, temperature=3)
    assert raised.value.param == "temperature" and raised.value.type == "invalid_request_error"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    client.server.engine.fails = lambda request: True
    with pytest.raises(openai.InternalServerError):
        chat.create(model=MODEL, messages=MESSAGES)
    with pytest.raises(openai.APIError, match="the step failed"):
        list(chat.create(model=MODEL, messages=MESSAGES, stream=True))


@pytest.mark.parametrize("http2", [False, True])
async def test_many_at_once(start, http2):
    server = start(says(TEXT), gap_s=0.002)
    http = httpx.AsyncClient(http1=not http2, http2=http2, limits=httpx.Limits(max_connections=1 if http2 else 50))
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", http_client=http) as client:

        async def one() -> str:
            stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        assert await asyncio.gather(*(one() for _ in range(50))) == [TEXT] * 50


def test_the_client_retries_what_it_should(start):
    server = start(says(TEXT))
    server.engine.max_waiting = 0
    calls: list[int] = []

    def count(answer: httpx.Response) -> None:
        calls.append(answer.status_code)
        server.engine.max_waiting = 10

    http = httpx.Client(event_hooks={"response": [count]})
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", http_client=http, max_retries=1) as client:
        assert client.chat.completions.create(model=MODEL, messages=MESSAGES).choices[0].message.content == TEXT
    assert calls == [503, 200]
