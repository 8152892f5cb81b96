"""Calls from end to end: legal parameters together, and clients that leave."""

from __future__ import annotations

import asyncio
import itertools

import orjson
import pytest

from server.app import create_app
from tests.server.parts import MODEL, chat, completion, events_of, mk_context, says

SHARED = {
    "temperature": [0, 2],
    "top_p": [0.01, 1],
    "top_k": [-1, 1],
    "min_p": [0, 1],
    "presence_penalty": [-2, 2],
    "frequency_penalty": [-2, 2],
    "repetition_penalty": [0.01, 10],
    "logit_bias": [{}, {"0": -100, "256": 100}],
    "seed": [-(2**63), 2**64 - 1],
    "n": [1, 3],
    "stop": ["界", ["x", "lo w", "\n"]],
    "stop_token_ids": [[], [33]],
    "ignore_eos": [False, True],
    "min_tokens": [0, 4],
    "stream": [False, True],
    "service_tier": ["auto", "flex"],
    "skip_special_tokens": [False, True],
    "user": ["u"],
    "andes": [{}, {"expected_ttft_ms": 0.001, "expected_tokens_per_s": 10_000}],
}
CHAT = SHARED | {"logprobs": [True], "top_logprobs": [0, 20], "max_tokens": [4, 60], "continue_final_message": [True]}
COMPLETION = SHARED | {
    "logprobs": [0, 20],
    "echo": [False, True],
    "max_tokens": [0, 60],
    "prompt": [[97], ["a", "é"], [[1], [255]]],
    "add_special_tokens": [False],
}


def pairs(values):
    for (one, ones), (two, twos) in itertools.combinations(values.items(), 2):
        for first, second in itertools.product(ones, twos):
            yield {one: first, two: second}


def legal(body):
    return not ("top_logprobs" in body and not body.get("logprobs")) and not (
        body.get("min_tokens", 0) > body.get("max_tokens", 100)
    )


@pytest.mark.parametrize(
    ("path", "make", "values"), [("/v1/chat/completions", chat, CHAT), ("/v1/completions", completion, COMPLETION)]
)
async def test_legal_parameters_in_pairs(connect, path, make, values):
    client = connect(mk_context(says("hello w\xf6rld 世界!\n")))
    for pair in pairs(values):
        body = {"max_tokens": 30} | make() | pair
        if "top_logprobs" in body:
            body["logprobs"] = True
        if not legal(body):
            continue
        answer = await client.post(path, json=body)
        assert answer.status_code == 200, (pair, answer.text)
        assert not {b"Infinity", b"NaN"} & {*answer.content.split()}
        if body.get("stream"):
            events = events_of(answer.content)
            reasons = [choice["finish_reason"] for event in events for choice in event["choices"]]
            assert {*reasons} <= {None, "stop", "length"}
            prompts = len(body["prompt"]) if isinstance(body.get("prompt"), list) and body["prompt"] != [97] else 1
            assert len(reasons) - reasons.count(None) == body.get("n", 1) * prompts
        else:
            assert {choice["finish_reason"] for choice in orjson.loads(answer.content)["choices"]} <= {"stop", "length"}


async def test_the_reply_s_shape(connect):
    reply = (await connect().post("/v1/chat/completions", json=chat())).json()
    assert reply["id"].startswith("chatcmpl-") and reply["object"] == "chat.completion" and reply["model"] == MODEL
    message = {"role": "assistant", "content": "Hello.", "refusal": None}
    assert reply["choices"] == [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}]
    assert reply["usage"] == {
        "prompt_tokens": len("<user>hi\n<assistant>"),
        "completion_tokens": 7,
        "total_tokens": len("<user>hi\n<assistant>") + 7,
        "prompt_tokens_details": {"cached_tokens": 0},
        "andes": {"qoe": None, "waited_ms": None, "preemptions": 0},
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
async def test_a_request_that_fails(connect, stream, n):
    context = mk_context(says("hello"))
    context.engine.fails = lambda request: request.sampling.choice == n - 1
    client = connect(context)
    answer = await client.post("/v1/chat/completions", json=chat(n=n, stream=stream))
    if stream:
        assert answer.status_code == 200
        assert events_of(answer.content)[-1]["error"]["code"] == "generation_failed"
        assert answer.text.count('"error"') == 1
    else:
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "api_error"
        assert answer.json()["error"]["message"] == "the step failed"
    context.engine.fails = lambda request: False
    assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200


class Client:
    """An ASGI client that can leave."""

    def __init__(self, body: dict, path: str = "/v1/chat/completions") -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(b"content-type", b"application/json")],
            "http_version": "1.1",
            "query_string": b"",
            "root_path": "",
        }
        self.inbox: asyncio.Queue = asyncio.Queue()
        self.inbox.put_nowait({"type": "http.request", "body": orjson.dumps(body), "more_body": False})
        self.sent: list[dict] = []
        self.news = asyncio.Event()

    async def send(self, message: dict) -> None:
        self.sent.append(message)
        self.news.set()

    def leave(self) -> None:
        self.inbox.put_nowait({"type": "http.disconnect"})


async def settled(condition, timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
async def test_leaving_cancels_every_choice(stream, n):
    context = mk_context()
    context.engine.hold()
    app = create_app(context)
    client = Client(chat(n=n, stream=stream))
    call = asyncio.create_task(app(client.scope, client.inbox.get, client.send))
    await settled(lambda: len(context.engine.submitted) == n)
    client.leave()
    await asyncio.wait_for(call, 1)
    assert len(context.engine.cancelled) == n
    assert app.services.front_end.open_requests == 0
    assert app.services.lifecycle.running == 0
    context.engine.release()
    await settled(lambda: not context.engine.live)
    await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    metrics = app.services.metrics.render().decode()
    path = "/v1/chat/completions"
    assert f'andes_requests_started_total{{endpoint="{path}"}} {n}.0' in metrics
    assert f'andes_requests_finished_total{{endpoint="{path}",finish_reason="cancelled"}} {n}.0' in metrics
    context.engine.stop(0)


async def test_leaving_while_the_prompt_is_encoded():
    import threading

    context = mk_context()
    encoding, released = threading.Event(), threading.Event()
    encode = context.tokenizer.encode

    def slow(*arguments, **keywords):
        encoding.set()
        released.wait(5)
        return encode(*arguments, **keywords)

    context.tokenizer.encode = slow
    app = create_app(context)
    client = Client(chat())
    call = asyncio.create_task(app(client.scope, client.inbox.get, client.send))
    await settled(encoding.is_set)
    client.leave()
    await asyncio.wait_for(call, 1)
    released.set()
    await asyncio.sleep(0.05)
    assert context.engine.submitted == [] and client.sent == []
    context.engine.stop(0)


async def test_leaving_while_the_body_is_sent():
    context = mk_context()
    app = create_app(context)
    client = Client(chat())
    client.inbox = asyncio.Queue()
    client.inbox.put_nowait({"type": "http.request", "body": b'{"mod', "more_body": True})
    client.leave()
    await asyncio.wait_for(app(client.scope, client.inbox.get, client.send), 1)
    assert client.sent == [] and app.services.lifecycle.running == 0
    assert 'status="disconnected"} 1.0' in app.services.metrics.render().decode()
    context.engine.stop(0)


async def test_a_slow_reader_gets_everything_in_few_pieces():
    """While one send waits, what comes is merged: the next send takes it all."""
    context = mk_context()
    app = create_app(context)
    client = Client(chat(stream=True, max_tokens=500))
    reading = asyncio.Event()
    receive = client.send

    async def send(message):
        await receive(message)
        if len(client.sent) == 3:
            await reading.wait()

    call = asyncio.create_task(app(client.scope, client.inbox.get, send))
    await settled(lambda: not context.engine.live and len(client.sent) == 3)
    reading.set()
    await asyncio.wait_for(call, 5)
    assert len(client.sent) <= 5
    body = b"".join(message.get("body", b"") for message in client.sent)
    assert sum(len(event["choices"][0]["delta"].get("content", "")) for event in events_of(body)) == 500
    context.engine.stop(0)
