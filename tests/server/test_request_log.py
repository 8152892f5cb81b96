"""A line for every request that ended, whatever ended it, and nothing that waits for the file."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import httpx
import orjson
import pytest
from prometheus_client import CollectorRegistry, Counter

from andes_jax.request import FinishReason, Request, SamplingParams, Tier
from server import request_log
from server.app import create_app
from server.request_log import Ended, RequestLog
from tests.server.parts import MODEL, chat, completion, mk_context, says
from tests.server.test_generation import Client, settled
from tests.server.waiting import wait_for

MEMBERS = [
    "id",
    "model",
    "arrived",
    "tier",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "finish",
    "ttft_s",
    "latency_s",
    "waited_s",
    "qoe",
    "expected_ttft_s",
    "expected_tokens_per_s",
    "preemptions",
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "requests.jsonl"


@pytest.fixture
def log(path):
    """log(path) is a log around an engine that runs, and its counter of lines lost."""
    made = []

    def make(path=path):
        context = mk_context(says("ok"), request_log=path)
        dropped = Counter("dropped", "", ["reason"], registry=CollectorRegistry())
        made.append((context, RequestLog(context, dropped)))
        made[-1][1].lost = lambda reason: dropped.labels(reason)._value.get()
        return made[-1][1]

    yield make
    for context, each in made:
        each.close(5)
        context.engine.stop(0)


def ended(name: str = "r", **changes) -> Ended:
    request = Request(name, (1, 2), SamplingParams(max_tokens=9), Tier.BATCH, arrived_s=1.0)
    return Ended(request, **{"finish": FinishReason.STOP, "ended_s": 2.0} | changes)


def lines_of(path) -> list[dict]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def test_replies_streams_and_refusals_each_have_a_line(start, path):
    server = start(says("Hello."), request_log=path, max_waiting=3)
    engine = server.engine
    engine.experience = {"qoe": 0.75, "waited_s": 0.25, "preemptions": 1}
    before = time.time()
    post = lambda body, path="chat/completions": httpx.post(f"{server.url}/v1/{path}", json=body)  # noqa: E731
    post(chat(andes={"expected_ttft_ms": 500}))
    post(completion(["ab", "c"], max_tokens=3, stream=True, service_tier="flex"), "completions")
    engine.fails = lambda request: True
    post(chat())
    assert post(chat(temperature=9)).status_code == 400  # never a request
    engine.submit_all = refuse
    assert post(chat()).status_code == 503
    server.end()  # writes what is left
    whole, first, second, failed, refused = lines_of(path)
    assert [list(line) for line in (whole, first, second, failed, refused)] == [MEMBERS] * 5
    assert whole["id"].startswith("chatcmpl-") and whole["id"].endswith(":0") and whole["model"] == MODEL
    assert before <= whole["arrived"] <= whole["arrived"] + whole["latency_s"] <= time.time()
    assert 0 < whole["ttft_s"] <= whole["latency_s"]
    given = {name: whole[name] for name in MEMBERS[3:8] + MEMBERS[10:]}
    assert given == {
        "tier": "streaming",
        "prompt_tokens": len("<user>hi\n<assistant>"),
        "cached_tokens": 0,
        "output_tokens": 7,
        "finish": "stop",
        "waited_s": 0.25,
        "qoe": 0.75,
        "expected_ttft_s": 0.5,
        "expected_tokens_per_s": 5.0,
        "preemptions": 1,
    }
    assert [(line["id"][-2:], line["prompt_tokens"], line["finish"]) for line in (first, second)] == [
        (":0", 2, "length"),
        (":1", 1, "length"),
    ]
    assert first["tier"] == "batch" and first["expected_ttft_s"] is first["qoe"] is None
    assert failed["finish"] == "failed" and failed["ttft_s"] is None and failed["latency_s"] > 0
    assert refused["finish"] == "refused" and refused["prompt_tokens"] > 0 and refused["output_tokens"] == 0
    assert refused["qoe"] == 0.0 and refused["latency_s"] is refused["waited_s"] is None


def refuse(requests, sink):
    from andes_jax.request import Refusal

    raise Refusal("full", "engine_overloaded")


async def test_a_client_that_leaves_has_a_line_once_the_engine_has_let_go(path):
    context = mk_context(request_log=path, gap_s=0.001)
    context.engine.experience = {"waited_s": 0.5, "preemptions": 2}
    app = create_app(context)
    client = Client(chat(stream=True, n=2, max_tokens=2000))
    call = asyncio.create_task(app(client.scope, client.inbox.get, client.send))
    await settled(lambda: len(client.sent) > 5)
    client.leave()
    await asyncio.wait_for(call, 5)
    front_end = app.services.front_end
    await settled(lambda: not front_end._left)
    assert front_end.open_requests == 0
    app.services.request_log.close(5)
    lines = lines_of(path)
    assert [line["finish"] for line in lines] == ["cancelled"] * 2
    assert all(line["output_tokens"] > 0 and line["ttft_s"] > 0 and line["qoe"] is None for line in lines)
    assert [(line["waited_s"], line["preemptions"]) for line in lines] == [(0.5, 2)] * 2
    metrics = app.services.metrics.render().decode()
    assert 'andes_queue_wait_seconds_count{tier="realtime"} 2.0' in metrics
    assert 'andes_preemptions_total{tier="realtime"} 4.0' in metrics
    context.engine.stop(0)


async def test_a_call_without_room_for_its_tokens_is_refused_with_a_line(path):
    from server.errors import ApiError

    context = mk_context(says("ok"), request_log=path, max_waiting=1)
    services = create_app(context).services
    meter = services.metrics.call("/x", Tier.BATCH, 0.0)
    requests = [Request(name, (1,), SamplingParams(max_tokens=1), Tier.BATCH) for name in "ab"]
    with pytest.raises(ApiError, match="room for 1"):
        await services.front_end.open(requests, meter)
    services.request_log.close(5)
    assert [(line["id"], line["finish"], line["qoe"]) for line in lines_of(path)] == [
        ("a", "refused", None),
        ("b", "refused", None),
    ]
    context.engine.stop(0)


def test_the_engine_s_explanation_is_in_the_line(log, path):
    one = log()
    one._context.engine.explained = {"a": {"id": "a", "events": [{"what": "waited"}]}}
    one.add(ended("a"))
    one.add(ended("b"))
    one.close(5)
    first, second = lines_of(path)
    assert first["explain"] == [{"what": "waited"}] and "explain" not in second


def test_without_a_file_there_is_no_thread(log):
    one = log(None)
    one.add(ended())
    assert one._thread is None
    one.close(5)


def test_a_slow_file_costs_lines_and_no_time(log, path, monkeypatch):
    monkeypatch.setattr(request_log, "MOST_WAITING", 10)
    one = log()
    begun, go_on = threading.Event(), threading.Event()

    def slow(request_id):
        begun.set()
        go_on.wait(10)

    one._context.engine.explain = slow
    one.add(ended())
    assert begun.wait(5)
    started = time.monotonic()
    for _ in range(25):
        one.add(ended())
    assert time.monotonic() - started < 0.5
    assert one.lost("queue full") == 15
    go_on.set()
    one.close(5)
    assert len(lines_of(path)) == 11


def test_a_file_that_cannot_be_written_is_complained_of_once(log, tmp_path, caplog):
    path = tmp_path / "absent" / "log"
    one = log(path)
    with caplog.at_level(logging.WARNING, logger="andes_jax.server"):
        for count in range(1, 4):
            one.add(ended())
            assert wait_for(lambda count=count: one.lost("not written") == count)
        assert len(caplog.records) == 1 and str(path) in caplog.text and "Traceback" not in caplog.text
        path.parent.mkdir()
        one.add(ended("good"))
        assert wait_for(lambda: lines_of(path))
        one._context.engine.explain = None  # a defect of ours: told with its trace, and the thread lives on
        one.add(ended())
        assert wait_for(lambda: one.lost("not written") == 4)
        assert len(caplog.records) == 2 and "Traceback" in caplog.text
    one._context.engine.explain = lambda request_id: None
    one.add(ended("again"))
    one.close(5)
    assert [line["id"] for line in lines_of(path)] == ["good", "again"]


def test_a_file_that_is_moved_away_is_begun_anew(log, path):
    one = log()
    one.add(ended("a"))
    assert wait_for(lambda: len(lines_of(path)) == 1)
    path.rename(path.with_suffix(".old"))
    one.add(ended("b"))
    one.close(5)
    assert [line["id"] for line in lines_of(path)] == ["b"]
