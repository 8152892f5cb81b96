"""When a reader expects text, and what the reply says of how it fared."""

from __future__ import annotations

import dataclasses

import httpx
import openai
import pytest

from andes_jax.request import QoeTarget, Tier
from tests.server.parts import MODEL, chat, completion, events_of, mk_context, says

PATHS = {"/v1/chat/completions": chat, "/v1/completions": completion}
CALLS = pytest.mark.parametrize(("path", "make"), PATHS.items())
TTFT, SPEED = "expected_ttft_ms", "expected_tokens_per_s"
REALTIME, STREAMING = QoeTarget(0.5, 8.0), QoeTarget(2.0, 4.0)


def own_context():
    tiers = {Tier.REALTIME: REALTIME, Tier.STREAMING: STREAMING}
    return dataclasses.replace(mk_context(says("ok")), expectations=tiers)


@CALLS
@pytest.mark.parametrize(
    ("value", "param"),
    [
        ([], "andes"),
        ("fast", "andes"),
        (True, "andes"),
        ({"expected_ttft": 1}, "andes.expected_ttft"),
        ({"": 1}, "andes.''"),
        *(({TTFT: value}, f"andes.{TTFT}") for value in (0, -1, "1", True, [], 1e300, 10**30, 1e-320)),
        *(({SPEED: value}, f"andes.{SPEED}") for value in (0, -5, "5", False, {}, 10_001, 1e-320)),
        ({TTFT: 100, SPEED: -1}, f"andes.{SPEED}"),
    ],
)
async def test_bad_expectations_are_named_and_leave_nothing(connect, path, make, value, param):
    context = mk_context(says("x"))
    client = connect(context)
    for stream in (False, True):
        answer = await client.post(path, json=make(andes=value, stream=stream))
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == param
        assert answer.json()["error"]["type"] == "invalid_request_error"
    assert context.engine.submitted == [] and client._transport.app.services.front_end.open_requests == 0


@CALLS
@pytest.mark.parametrize(
    ("parameters", "usual"),
    [
        ({"stream": True}, REALTIME),
        ({"stream": False}, STREAMING),
        ({"service_tier": "priority"}, REALTIME),
        ({"service_tier": "flex", "stream": True}, None),
    ],
)
async def test_the_tier_completes_what_a_call_says(connect, path, make, parameters, usual):
    context = own_context()
    client = connect(context)
    known = usual or STREAMING  # a batch call with a reader is read like a streaming one
    cases = [
        (None, usual),
        ({}, usual),
        ({TTFT: None, SPEED: None}, usual),
        ({TTFT: 250}, QoeTarget(0.25, known.tokens_per_s)),
        ({SPEED: 30.5}, QoeTarget(known.first_token_s, 30.5)),
        ({TTFT: 1.5, SPEED: 1}, QoeTarget(0.0015, 1.0)),
    ]
    for said, expected in cases:
        assert (await client.post(path, json=make(andes=said, **parameters))).status_code == 200
        assert context.engine.submitted[-1].qoe == expected, said


async def test_every_choice_has_the_expectation(connect):
    context = own_context()
    await connect(context).post("/v1/completions", json=completion(["a", "b"], n=2, andes={TTFT: 10}))
    assert [request.qoe for request in context.engine.submitted] == [QoeTarget(0.01, 4.0)] * 4


def test_defaults_are_those_of_the_configuration():
    from andes_jax.config import load_config

    scheduling = load_config(environ={}, flags={}).scheduling
    context = mk_context()
    context.engine.stop(0)
    assert context.expectations == {
        Tier.REALTIME: QoeTarget(scheduling.realtime_ttft, scheduling.realtime_speed),
        Tier.STREAMING: QoeTarget(scheduling.streaming_ttft, scheduling.streaming_speed),
    }


@CALLS
@pytest.mark.parametrize("stream", [False, True])
async def test_the_usage_tells_how_the_reader_fared(connect, path, make, stream):
    context = mk_context(says("ok"))
    context.engine.experience = {"qoe": 0.987654, "waited_s": 0.0123456, "preemptions": 2}
    options = {"stream_options": {"include_usage": True}} if stream else {}
    client = connect(context)

    async def usage(**parameters):
        answer = await client.post(path, json=make(stream=stream, **options, **parameters))
        return (events_of(answer.content)[-1] if stream else answer.json())["usage"]

    one = {"qoe": 0.9877, "waited_ms": 12.3, "preemptions": 2}
    assert (await usage())["andes"] == one
    assert (await usage(n=2))["andes"] == one | {"preemptions": 4, "choices": [one, one]}
    assert "andes" not in await usage(service_tier="flex")
    assert (await usage(service_tier="flex", andes={SPEED: 3}))["andes"] == one


@pytest.mark.parametrize("http2", [False, True])
def test_the_official_client_can_say_and_hear_it(start, http2):
    server = start(says("ok"))
    server.engine.experience = {"qoe": 0.5}
    http = httpx.Client(http1=not http2, http2=http2)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", http_client=http, max_retries=0) as client:
        messages = [{"role": "user", "content": "hi"}]
        reply = client.chat.completions.create(model=MODEL, messages=messages, extra_body={"andes": {TTFT: 300}})
        assert server.engine.submitted[-1].qoe == QoeTarget(0.3, 5.0)
        assert reply.usage.model_extra["andes"]["qoe"] == 0.5
        with pytest.raises(openai.BadRequestError) as raised:
            client.completions.create(model=MODEL, prompt="hi", extra_body={"andes": {"speed": 3}})
        assert raised.value.param == "andes.speed"
