"""Streamed text equals the whole reply, byte for byte, whatever it is cut into."""

from __future__ import annotations

import asyncio

import httpx
import orjson
import pytest

from andes_jax.request import FinishReason
from server.chunking import Hold
from tests.server.parts import chat, chat_text, completion, events_of, mk_context, says

TEXTS = {
    "plain": "Hello, world.",
    "empty": "",
    "Korean": "안녕하세요, 세계!",
    "Chinese": "你好，世界。一二三",
    "emoji": "a👩‍👩‍👧‍👦b🇫🇷c🙂",
    "spaces": "  a    b\t\tc\n\n   \n d  ",
    "controls": '\x00\x1f"\\/\u2028\u2029\x7f</script>',
    "only spaces": "     ",
    "code": "def f(x):\n    if x:\n        return {'a': [1, 2]}\n",
    "data line": "data: x\n\ndata: [DONE]\n\n",
}
BYTES = {
    "cut character": "ab界".encode()[:-1],
    "lone bytes": b"\xff\xfea\x80b\xc3",
    "surrogate bytes": b"\xed\xa0\x80x",
    "overlong": b"\xc0\xafx",
}
STOPS = [
    None,
    "b",
    "a",
    "ab",
    "\n",
    " ",
    "界",
    "世界",
    "o, w",
    "never there",
    ["zzz", "   ", "🙂"],
    "DONE",
    "한",
    "é",
    "abcdefgh",
]


@pytest.fixture(params=["as it comes", "held"])
def pace(request, monkeypatch):
    """Streams whose text is never held, and streams whose text is held whenever that is allowed."""
    if request.param == "held":
        monkeypatch.setattr("server.pace.decide", held_whenever_it_may_be)


def held_whenever_it_may_be(situation, now, limits):
    until_s = situation.held_since_s + 0.004
    return None if situation.urgent or until_s <= now else Hold(until_s, 1 << 20)


def scripts():
    return [*(text.encode() for text in TEXTS.values()), *BYTES.values()]


@pytest.mark.parametrize("script", scripts())
async def test_streams_say_what_whole_replies_say(connect, script, pace):
    client = connect(mk_context(says(script)))
    for stop in STOPS:
        for limit in (None, 1, 5):
            common = {"stop": stop, "max_tokens": limit}
            whole = (await client.post("/v1/chat/completions", json=chat(**common))).json()["choices"][0]
            events = events_of((await client.post("/v1/chat/completions", json=chat(stream=True, **common))).content)
            assert chat_text(events) == whole["message"]["content"]
            assert events[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]
            text = (await client.post("/v1/completions", json=completion(**common))).json()["choices"][0]["text"]
            events = events_of((await client.post("/v1/completions", json=completion(stream=True, **common))).content)
            assert "".join(event["choices"][0]["text"] for event in events) == text == whole["message"]["content"]
            if stop is None and limit is None:
                assert text == script.decode(errors="replace")


@pytest.mark.parametrize("text", TEXTS.values())
async def test_chunks_have_the_client_s_shape(connect, text):
    answer = await connect(mk_context(says(text))).post("/v1/chat/completions", json=chat(stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.content)
    assert len({event["id"] for event in events}) == 1
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    choices = [event["choices"][0] for event in events]
    assert choices[0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert all(set(choice["delta"]) == {"content"} and choice["delta"]["content"] for choice in choices[1:-1])
    assert choices[-1]["delta"] == {}
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]


async def test_a_character_goes_with_its_last_byte(connect, pace):
    context = mk_context(says("한🙂x"), gap_s=0.001)
    events = events_of((await connect(context).post("/v1/chat/completions", json=chat(stream=True))).content)
    contents = [event["choices"][0]["delta"].get("content") for event in events]
    assert "".join(content for content in contents if content) == "한🙂x"
    assert not any("\ufffd" in content for content in contents if content)


@pytest.mark.parametrize("make", [chat, completion])
@pytest.mark.parametrize("n", [1, 3])
async def test_usage_comes_last_and_only_when_asked(connect, make, n, pace):
    path = "/v1/chat/completions" if make is chat else "/v1/completions"
    client = connect()
    body = make(n=n, stream=True)
    whole = (await client.post(path, json=make(n=n))).json()["usage"]
    for options in ({}, {"stream_options": {}}, {"stream_options": {"include_usage": False}}):
        assert all("usage" not in event for event in events_of((await client.post(path, json=body | options)).content))
    options = {"stream_options": {"include_usage": True}}
    events = events_of((await client.post(path, json=body | options)).content)
    assert all(event["usage"] is None and len(event["choices"]) == 1 for event in events[:-1])
    assert events[-1]["choices"] == [] and events[-1]["usage"] == whole


async def test_choices_keep_apart(connect, pace):
    context = mk_context()
    client = connect(context)
    body = chat(n=3, max_tokens=40, seed=3)
    whole = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
    events = events_of((await client.post("/v1/chat/completions", json=body | {"stream": True})).content)
    texts = [chat_text(events, index) for index in range(3)]
    assert texts == [choice["message"]["content"] for choice in whole]
    assert len(set(texts)) == 3
    for index in range(3):
        own = [event["choices"][0] for event in events if event["choices"][0]["index"] == index]
        assert own[0]["delta"]["role"] == "assistant" and own[-1]["finish_reason"] == "length"


@pytest.mark.parametrize("make", [chat, completion])
async def test_log_probabilities_of_streams_and_replies(connect, make, pace):
    path = "/v1/chat/completions" if make is chat else "/v1/completions"
    client = connect(mk_context(says("héy 界")))
    asked = {"logprobs": True, "top_logprobs": 3} if make is chat else {"logprobs": 3, "echo": True}
    whole = (await client.post(path, json=make(**asked))).json()["choices"][0]
    events = events_of((await client.post(path, json=make(stream=True, **asked))).content)
    parts = [event["choices"][0]["logprobs"] for event in events if event["choices"][0]["logprobs"]]
    for name in ("content",) if make is chat else ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [entry for part in parts for entry in part[name]] == whole["logprobs"][name]
    if make is chat:
        content = whole["logprobs"]["content"]
        assert bytes(byte for entry in content for byte in entry["bytes"]).decode() == whole["message"]["content"]
        assert all(len(entry["top_logprobs"]) == 3 for entry in content)
        assert {each["logprob"] for entry in content for each in entry["top_logprobs"]} == {-0.5, -9999.0}
    else:
        text = whole["text"]
        for token, offset in zip(whole["logprobs"]["tokens"], whole["logprobs"]["text_offset"], strict=True):
            assert token.startswith("bytes:") or text[offset : offset + len(token)] == token


@pytest.mark.parametrize("h2", [False, True])
def test_the_head_leaves_before_the_first_token(start, h2):
    server = start(says("Hello."))
    server.engine.hold()
    with (
        httpx.Client(base_url=server.url, http1=not h2, http2=h2, timeout=5) as client,
        client.stream("POST", "/v1/chat/completions", json=chat(stream=True)) as answer,
    ):
        assert answer.status_code == 200 and server.engine.live
        server.engine.release()
        assert chat_text(events_of(answer.read())) == "Hello."


async def test_the_role_waits_for_the_first_token(connect):
    """Nothing that looks like a token leaves before there is one."""
    from server.app import create_app
    from tests.server.test_generation import Client, settled

    context = mk_context(says("Hello."))
    context.engine.hold()
    client = Client(chat(stream=True))
    call = asyncio.create_task(create_app(context)(client.scope, client.inbox.get, client.send))
    await settled(lambda: len(client.sent) == 2)
    assert client.sent[1]["body"] == b": \n\n"
    context.engine.release()
    await asyncio.wait_for(call, 5)
    assert b'"role":"assistant"' in client.sent[2]["body"]
    context.engine.stop(0)


@pytest.mark.parametrize("make", [chat, completion])
async def test_a_fault_comes_after_the_text_of_its_batch(connect, make, pace):
    path = "/v1/chat/completions" if make is chat else "/v1/completions"
    context = mk_context(lambda request: b"abcd"[: 2 + request.sampling.choice])
    context.engine.tokens_per_step = 9
    advance = context.engine._advance

    def failing_last(live):
        event = advance(live)
        if live.request.sampling.choice < 2:
            return event
        return event._replace(finish=FinishReason.FAILED, message="it broke")

    context.engine._advance = failing_last
    answer = await connect(context).post(path, json=make(n=3, stream=True))
    *events, error = events_of(answer.content)
    assert error["error"]["message"] == "it broke"
    choices = [choice for event in events for choice in event["choices"]]
    texts = ["", "", ""]
    for choice in choices:
        texts[choice["index"]] += choice["delta"].get("content", "") if make is chat else choice["text"]
    assert texts == ["ab", "abc", "abcd"]
    assert {choice["index"]: choice["finish_reason"] for choice in choices} == {0: "stop", 1: "stop", 2: None}


@pytest.mark.parametrize(
    "parameter", [{"top_p": 0}, {"model": "nope"}, {"messages": [{"role": "tool", "content": ""}]}]
)
async def test_faults_come_before_the_stream(connect, parameter):
    answer = await connect().post("/v1/chat/completions", json=chat(stream=True) | parameter)
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/json" and "error" in orjson.loads(answer.content)
