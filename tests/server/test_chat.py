"""The body of a chat call."""

from __future__ import annotations

import pytest

from server.schemas.chat import ChatBody
from tests.server.parts import MODEL, chat, mk_context, says

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TEXT = {"type": "text", "text": "x"}

BAD_MESSAGES = [
    ([], "messages"),
    ("hi", "messages"),
    ({"role": "user"}, "messages"),
    (["hi"], "messages[0]"),
    ([{"content": "x"}], "messages[0].role"),
    ([{"role": "robot", "content": "x"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0]"),
    ([{"role": "user", "content": None}], "messages[0]"),
    ([{"role": "user", "content": 3}], "messages[0].content"),
    ([{"role": "user", "content": []}], "messages[0].content"),
    ([{"role": "user", "content": {"type": "text"}}], "messages[0].content"),
    ([{"role": "user", "content": "x"}, {"role": "user", "content": [TEXT, IMAGE]}], "messages[1].content"),
    ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content"),
    ([{"role": "user", "content": ["x"]}], "messages[0].content"),
    ([{"role": "user", "content": "x", "colour": "red"}], "messages[0].colour"),
    ([{"role": "user", "content": "x", "tool_calls": [{}]}], "messages[0]"),
]


@pytest.mark.parametrize(("messages", "param"), BAD_MESSAGES)
@pytest.mark.parametrize("stream", [False, True])
async def test_bad_messages_are_named(connect, messages, param, stream):
    body = {"model": MODEL, "messages": messages, "stream": stream}
    answer = await connect().post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param, answer.text


async def test_no_messages(connect):
    for body in ({"model": MODEL}, {"model": MODEL, "messages": None}):
        answer = await connect().post("/v1/chat/completions", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "messages"
        assert answer.json()["error"]["code"] == "missing_required_parameter"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "auto"),
        ("functions", [{"name": "f"}]),
        ("function_call", "auto"),
        ("response_format", {"type": "json_object"}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#"}}}),
        ("response_format", "text"),
        ("audio", {"voice": "a", "format": "wav"}),
        ("modalities", ["text", "audio"]),
        ("modalities", []),
        ("prediction", {"type": "content", "content": "x"}),
        ("reasoning_effort", "low"),
        ("max_tokens", 0),
        ("max_completion_tokens", 0),
        ("max_completion_tokens", 10**9),
        ("logprobs", 1),
        ("top_logprobs", 3),
        ("chat_template_kwargs", []),
        ("chat_template_kwargs", {"messages": []}),
        ("prompt", "x"),
        ("echo", True),
    ],
)
async def test_what_is_not_served_is_named(connect, name, value):
    context = mk_context(says("x"))
    answer = await connect(context).post("/v1/chat/completions", json=chat(**{name: value}))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].split(".")[0] == name, answer.text
    assert context.engine.submitted == []


@pytest.mark.parametrize("top", [-1, 21, 1.0, True, "5"])
async def test_top_logprobs_has_bounds(connect, top):
    answer = await connect().post("/v1/chat/completions", json=chat(logprobs=True, top_logprobs=top))
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "top_logprobs"


async def test_limits_that_contradict(connect):
    answer = await connect().post("/v1/chat/completions", json=chat(max_tokens=3, max_completion_tokens=4))
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "max_completion_tokens"


def test_text_parts_become_lines():
    body = ChatBody.parse({"messages": [{"role": "user", "content": [TEXT, {"type": "text", "text": "y"}]}]})
    assert body.messages[0].for_template() == {"role": "user", "content": "x\ny"}


def test_a_developer_speaks_for_the_system():
    body = ChatBody.parse({"messages": [{"role": "developer", "content": "be brief"}]})
    assert body.messages[0].for_template() == {"role": "system", "content": "be brief"}


def test_replies_can_be_sent_back_as_the_client_dumps_them():
    dump = {
        "role": "assistant",
        "content": "x",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    assert ChatBody.parse({"messages": [dump]}).messages[0].for_template() == {"role": "assistant", "content": "x"}


@pytest.mark.parametrize("messages", [[{"role": "tool", "content": "x", "tool_call_id": "1"}]])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_template_s_own_words(connect, messages, stream):
    context = mk_context(says("x"))
    body = {"model": MODEL, "messages": messages, "stream": stream}
    answer = await connect(context).post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert "roles must alternate" in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == "messages"
    assert context.engine.submitted == []


async def rendered(connect, **parameters) -> str:
    context = mk_context(says("x"))
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "so far "}]
    body = {"model": MODEL, "messages": messages, **parameters}
    answer = await connect(context).post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return bytes(context.engine.submitted[0].prompt_ids).decode()


async def test_what_the_model_reads(connect):
    assert await rendered(connect) == "<user>q\n<assistant>so far \n<assistant>"
    assert await rendered(connect, add_generation_prompt=False) == "<user>q\n<assistant>so far \n"
    assert await rendered(connect, continue_final_message=True) == "<user>q\n<assistant>so far"


async def test_no_template(connect):
    import dataclasses

    context = dataclasses.replace(mk_context(says("x")), chat_template=None)
    client = connect(context)
    answer = await client.post("/v1/chat/completions", json=chat())
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "no_chat_template"
    assert (await client.post("/v1/completions", json={"prompt": "x"})).status_code == 200
