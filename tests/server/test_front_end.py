"""Events find their call across threads, and calls leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading

import httpx
import pytest

from andes_jax.clock import VirtualClock
from andes_jax.events import TokenEvent
from andes_jax.request import FinishReason, Refusal, Request, SamplingParams, Tier
from server.chunking import Hold
from server.context import ServerContext
from server.errors import ApiError
from server.front_end import FrontEnd
from server.metrics import Metrics
from tests.server.parts import chat, completion, mk_context, says
from tests.server.waiting import assert_idle, wait_for


class RecordingEngine:
    """Takes requests and does nothing by itself."""

    state = "ready"
    room = 100

    def __init__(self, takes: int = 100) -> None:
        self.takes = takes
        self.requests: list[Request] = []
        self.sinks: list = []
        self.cancelled: list[str] = []

    def submit_all(self, requests, sink):
        if len(self.requests) + len(requests) > self.takes:
            raise Refusal("full", "engine_overloaded")
        self.requests.extend(requests)
        self.sinks.extend([sink] * len(requests))

    def cancel(self, request_id):
        self.cancelled.append(request_id)


def requests(*names: str) -> list[Request]:
    return [Request(name, (1,), SamplingParams(max_tokens=9)) for name in names]


async def opened(engine, *names: str):
    front_end = FrontEnd(engine)
    meter = Metrics(engine, lambda: 0).call("/x", Tier.REALTIME, 0.0)
    return front_end, await front_end.open(requests(*names), meter)


def send(engine, *events: TokenEvent) -> None:
    """As the engine does: from a thread of its own."""
    thread = threading.Thread(target=lambda: engine.sinks[0](events))
    thread.start()
    thread.join()


async def test_events_of_one_step_reach_their_choices():
    engine = RecordingEngine()
    front_end, call = await opened(engine, "a", "b")
    assert engine.sinks[0] is engine.sinks[1]
    send(engine, TokenEvent("b", 1.0, "B", (1,)), TokenEvent("a", 1.0, "A", (1,)), TokenEvent("other", 1.0, "?", (1,)))
    pieces = await asyncio.wait_for(call.take(), 1)
    assert [(piece.index, piece.text) for piece in pieces] == [(0, "A"), (1, "B")]
    send(engine, TokenEvent("b", 2.0, "1", (1,)))
    send(engine, TokenEvent("b", 3.0, "2", (1,), finish=FinishReason.STOP))
    await asyncio.sleep(0)
    [piece] = await asyncio.wait_for(call.take(), 1)
    assert (piece.index, piece.text, piece.tokens, piece.finish) == (1, "12", 2, FinishReason.STOP)
    call.close()
    call.close()
    assert engine.cancelled == ["a"] and front_end.open_requests == 0


async def test_more_waits_for_bytes_or_for_what_is_urgent():
    engine = RecordingEngine()
    _, call = await opened(engine, "a")
    send(engine, TokenEvent("a", 1.0, "first", (1,)))
    await call.news()
    assert call.held.urgent
    await call.more(Hold(3600.0, 100), 0.0)  # urgent already
    [piece] = await call.take()
    assert piece.text == "first" and not call.held.urgent

    for event, waits in (("x" * 9, True), ("y" * 20, False)):  # the last one makes it enough
        send(engine, TokenEvent("a", 2.0, event, (1,)))
        await call.news()
        waiting = asyncio.ensure_future(call.more(Hold(3600.0, 25), 0.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waiting.done() != waits
        send(engine, TokenEvent("a", 2.0, "z", (1,)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waiting.done() != waits
        if waits:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            call._news.set()
    [piece] = await call.take()
    assert piece.text == "x" * 9 + "z" + "y" * 20 + "z"


async def test_an_end_wakes_whoever_waits_for_more():
    engine = RecordingEngine()
    _, call = await opened(engine, "a")
    send(engine, TokenEvent("a", 1.0, "first", (1,)))
    await call.take()
    send(engine, TokenEvent("a", 2.0, "x", (1,)))
    await call.news()
    waiting = asyncio.ensure_future(call.more(Hold(3600.0, 1000), 0.0))
    await asyncio.sleep(0)
    send(engine, TokenEvent("a", 3.0, "y", (1,), finish=FinishReason.STOP))
    await asyncio.wait_for(waiting, 5)
    [piece] = await call.take()
    assert piece.text == "xy" and piece.finish is FinishReason.STOP


async def test_a_timer_wakes_whoever_waits_for_more():
    engine = RecordingEngine()
    _, call = await opened(engine, "a")
    send(engine, TokenEvent("a", 1.0, "first", (1,)))
    await call.take()
    send(engine, TokenEvent("a", 2.0, "x", (1,)))
    await call.news()
    await asyncio.wait_for(call.more(Hold(7.001, 1000), 7.0), 5)
    [piece] = await call.take()
    assert piece.text == "x"


async def test_lag_follows_how_late_events_come():
    engine = RecordingEngine()
    clock = VirtualClock(10.0)
    front_end = FrontEnd(engine, clock=clock)
    await front_end.open(requests("a"), Metrics(engine, lambda: 0).call("/x", Tier.REALTIME, 0.0))
    for _ in range(50):
        send(engine, TokenEvent("a", clock.now(), "x", (1,)))
        clock.advance(0.03)
        await asyncio.sleep(0)
    assert 0.029 < front_end.lag_s <= 0.0301
    for _ in range(50):
        send(engine, TokenEvent("a", clock.now() + 1.0, "x", (1,)))  # a clock of another process may be ahead
        await asyncio.sleep(0)
    assert 0 <= front_end.lag_s < 0.0001


async def test_late_events_of_a_closed_call_are_dropped():
    engine = RecordingEngine()
    front_end, call = await opened(engine, "a")
    call.close()
    send(engine, TokenEvent("a", 1.0, "x", (1,), finish=FinishReason.CANCELLED))
    await asyncio.sleep(0)
    assert front_end.open_requests == 0


async def test_all_choices_or_none():
    engine = RecordingEngine(takes=2)
    with pytest.raises(ApiError) as raised:
        await opened(engine, "a", "b", "c")
    assert raised.value.status == 503 and engine.requests == engine.cancelled == []


async def test_without_room_the_engine_is_not_asked():
    engine = RecordingEngine()
    engine.room = 2
    await opened(engine, "a", "b")
    with pytest.raises(ApiError, match="room for 2 more replies, and this call asks for 3") as raised:
        await opened(engine, "c", "d", "e")
    assert raised.value.code == "engine_overloaded" and len(engine.requests) == 2


@pytest.mark.parametrize(
    ("state", "code"),
    [("starting", "engine_not_ready"), ("failed", "engine_failed"), ("draining", "shutting_down")],
)
async def test_an_engine_that_does_not_serve_is_not_asked(state, code):
    engine = RecordingEngine()
    engine.state = state
    with pytest.raises(ApiError) as raised:
        await opened(engine, "a")
    assert raised.value.code == code and engine.requests == []


def test_a_sink_never_raises_even_when_its_loop_is_gone():
    engine = RecordingEngine()

    async def open_and_leave():
        await opened(engine, "a")

    asyncio.run(open_and_leave())
    send(engine, TokenEvent("a", 1.0, "x"))


def test_streams_opened_and_dropped_at_random_leave_nothing(start):
    server = start(gap_s=0.002)
    before = server.engine.statistics().slots_free
    tasks = server.ask(lambda: len(asyncio.all_tasks()))
    chance = random.Random(7)

    async def one(client: httpx.AsyncClient) -> None:
        make, path = chance.choice([(chat, "/v1/chat/completions"), (completion, "/v1/completions")])
        body = make(stream=chance.random() < 0.7, n=chance.choice([1, 1, 3]), max_tokens=500)
        try:
            async with asyncio.timeout(chance.random() * 0.3), client.stream("POST", path, json=body) as answer:
                reads = chance.randrange(4)
                async for _ in answer.aiter_raw():
                    reads -= 1
                    if reads < 0:
                        return
        except (TimeoutError, httpx.TransportError):
            return

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=server.url, limits=limits) as client:
            for _ in range(10):
                await asyncio.gather(*(one(client) for _ in range(30)))

    asyncio.run(all_of_them())
    assert_idle(server)
    assert wait_for(lambda: server.ask(lambda: len(asyncio.all_tasks())) <= tasks)
    assert server.engine.statistics().slots_free == before
    metrics = httpx.get(server.url + "/metrics").text
    assert total(metrics, "andes_requests_started_total") == total(metrics, "andes_requests_finished_total") > 100
    assert httpx.post(server.url + "/v1/chat/completions", json=chat(max_tokens=3)).status_code == 200


def total(metrics: str, name: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(name + "{"))


async def test_one_loop_at_a_time():
    context: ServerContext = mk_context(says("x"))
    front_end = FrontEnd(context.engine)
    meter = Metrics(context.engine, lambda: 0).call("/x", Tier.BATCH, 0.0)
    (await front_end.open(requests("a"), meter)).close()

    async def again():
        await front_end.open(requests("b"), meter)

    with pytest.raises(RuntimeError, match="one event loop"):
        await asyncio.to_thread(lambda: asyncio.run(again()))
    context.engine.stop(0)
