"""The server in front of the real engine, over the fake runner."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time

import httpx
import pytest
from h2.settings import SettingCodes

from andes_jax.clock import WallClock
from andes_jax.engine import Engine
from andes_jax.request import Request, SamplingParams
from server.hypercorn_repairs import buffer
from tests.fakes import VOCABULARY, Rig, expected_ids
from tests.server.live import LiveServer, live_server
from tests.server.parts import ByteTokenizer, chat, chat_text, completion, events_of, mk_context
from tests.server.raw_h2 import RawH2
from tests.server.test_front_end import total
from tests.server.waiting import assert_idle, wait_for


class Served:
    def __init__(self, server: LiveServer, rig: Rig) -> None:
        self.server = server
        self.rig = rig
        self.url = server.url


@pytest.fixture
def served():
    rig = Rig(policy="three_tier", pages=400, slots=8, max_model_len=256)
    tokenizer = ByteTokenizer()
    engine = Engine(rig.scheduler, rig.runner, tokenizer.table, WallClock(), max_waiting=200)
    base = mk_context()
    base.engine.stop(0)
    engine.start()
    engine.live = []  # what LiveServer counts; the statistics say more here
    settings = dataclasses.replace(base.settings, unread_timeout_s=0.03)
    with live_server(dataclasses.replace(base, engine=engine, tokenizer=tokenizer, settings=settings)) as server:
        yield Served(server, rig)


def expected_text(prompt: list[int], max_tokens: int) -> str:
    ids = expected_ids(Request("r", tuple(prompt), SamplingParams(max_tokens, seed=5, stop_ids=(256,))))
    return bytes(ids).decode()


@pytest.mark.parametrize("stream", [False, True])
def test_the_engine_s_tokens_arrive(served, stream):
    prompts = [[number % VOCABULARY for number in range(start, start + 30)] for start in range(20)]
    body = completion(prompts, max_tokens=40, seed=5, stream=stream)
    answer = httpx.post(served.url + "/v1/completions", json=body, timeout=30)
    texts = [""] * len(prompts)
    for event in events_of(answer.content) if stream else [answer.json()]:
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == [expected_text(prompt, 40) for prompt in prompts]


def test_a_failing_request_fails_alone(served):
    poison = [7] * 20
    served.rig.runner.fail_collect = lambda plan, contexts: any(context[:20] == poison for context in contexts)

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
            prompts = [[each] * 20 for each in range(6)] + [poison]
            bodies = [completion([prompt], max_tokens=20, seed=5) for prompt in prompts]
            return await asyncio.gather(*(client.post("/v1/completions", json=body) for body in bodies))

    *good, bad = asyncio.run(ask())
    assert bad.status_code == 500 and bad.json()["error"]["type"] == "api_error"
    for each, answer in enumerate(good):
        assert answer.json()["choices"][0]["text"] == expected_text([each] * 20, 20)


def test_dropped_streams_give_everything_back(served):
    chance = random.Random(3)

    async def one(client: httpx.AsyncClient) -> None:
        body = chat("x" * chance.randrange(100), stream=chance.random() < 0.7, n=chance.choice([1, 3]))
        try:
            async with (
                asyncio.timeout(chance.random() * 0.2),
                client.stream("POST", "/v1/chat/completions", json=body) as answer,
            ):
                async for _ in answer.aiter_raw():
                    if chance.random() < 0.3:
                        return
        except (TimeoutError, httpx.TransportError):
            return

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=served.url, limits=limits) as client:
            for _ in range(5):
                await asyncio.gather(*(one(client) for _ in range(20)))

    asyncio.run(all_of_them())
    assert_idle(served.server)
    engine = served.server.context.engine
    assert wait_for(lambda: engine.statistics().slots_free == 8 and engine.statistics().pages_live == 0)
    assert served.rig.runner.violations == [] and engine.statistics().invariant_failures == 0
    metrics = httpx.get(served.url + "/metrics").text
    assert total(metrics, "andes_requests_started_total") == total(metrics, "andes_requests_finished_total")


@pytest.mark.parametrize("n", [1, 3])
def test_an_unread_stream_is_paused_and_then_whole(served, monkeypatch, n):
    monkeypatch.setattr(buffer, "STREAM_HIGH", 1024)
    monkeypatch.setattr(buffer, "STREAM_LOW", 512)
    collect = served.rig.runner.collect
    served.rig.runner.collect = lambda: (time.sleep(0.002), collect())[1]
    body = completion([7] * 20, n=n, max_tokens=200, seed=5, stream=True, stream_options={"include_usage": True})
    with RawH2(served.server.port, hungry=False) as client:
        client.connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
        client.flush()
        unread = client.post("/v1/completions", body)
        assert client.status(unread) == 200
        paused = f"andes_unread_pauses_total {n}.0"
        assert wait_for(lambda: paused in httpx.get(served.url + "/metrics").text)
        other = httpx.post(served.url + "/v1/completions", json=completion([[1] * 20], max_tokens=100, seed=5))
        assert other.json()["choices"][0]["text"] == expected_text([1] * 20, 100)
        made = served.server.context.engine.statistics().generated_tokens
        time.sleep(0.05)
        assert served.server.context.engine.statistics().generated_tokens == made < 100 + n * 200
        client.connection.increment_flow_control_window(1 << 20, unread)
        client.connection.increment_flow_control_window(1 << 20)
        client.flush()
        *events, last = events_of(client.whole(unread))
    for index in range(n):
        choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
        assert "".join(choice["text"] for choice in choices) == expected_text([7] * 20, 200)
    experience = last["usage"]["andes"]
    assert 0 <= experience["qoe"] <= 1 and experience["waited_ms"] >= 0
    told = httpx.get(f"{served.url}/v1/andes/requests/{last['id']}/explain").json()
    assert len(told["requests"]) == n
    assert served.rig.runner.violations == []


def test_the_drain_lets_streams_finish(served):
    with httpx.stream("POST", served.url + "/v1/chat/completions", json=chat(stream=True, max_tokens=150)) as answer:
        served.server.signal()
        events = events_of(answer.read())
    assert events[-1]["choices"][0]["finish_reason"] in ("length", "stop") and chat_text(events)
    assert served.server.join() == 0
    assert served.server.context.engine.state == "stopped"


@pytest.mark.parametrize("tokens", [255, 256, 257, 1000])
def test_what_never_fits_is_refused_before_the_engine(served, tokens):
    answer = httpx.post(served.url + "/v1/completions", json=completion([[1] * tokens], max_tokens=1))
    assert answer.status_code == (200 if tokens < 256 else 400)
    if tokens >= 256:
        assert answer.json()["error"]["code"] == "context_length_exceeded"
