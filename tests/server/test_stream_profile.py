"""Chunks of real calls over the fake engine, and a profile by hand."""

from __future__ import annotations

import dataclasses
import gc
import logging

import pytest

from andes_jax.clock import VirtualClock
from andes_jax.events import TokenEvent
from andes_jax.profiling.chunk import Chunk
from andes_jax.profiling.steps import StepNote
from andes_jax.request import Tier
from server.app import create_app
from server.stream_profile import StreamProfiler
from tests.server.parts import chat, mk_context, says
from tests.server.test_generation import Client


@pytest.fixture
def chunks(caplog):
    caplog.set_level(logging.INFO, logger="andes_jax.stream")
    return lambda: [chunk for record in caplog.records if (chunk := Chunk.parse(record.getMessage())) is not None]


@pytest.fixture
def profile():
    """A profiler with a clock turned by hand, what tells it of steps, and one call that came at 10 s."""
    listeners = []
    context = dataclasses.replace(mk_context(says("ok")), clock=VirtualClock(10.0), watch_steps=listeners.append)
    made = StreamProfiler(context)
    yield made, listeners[0], made.open("chat-1", Tier.REALTIME, 10.0), context.clock
    made.close()
    context.engine.stop(0.0)


def event(known_s: float, *ids: int) -> TokenEvent:
    return TokenEvent("chat-1:0", known_s, "x" * len(ids), ids)


def test_a_chunk_has_the_intervals_of_its_slowest_tokens(profile, chunks):
    _, on_step, call, clock = profile
    on_step(StepNote(10.05, 10.25, frozenset(["chat-1:0"]), 0, 128))
    clock.advance_to(10.26)
    call.event(event(10.25, 1))
    call.taken()
    clock.advance_to(10.31)
    call.sent(100)
    (first,) = chunks()
    assert (first.request, first.tier, first.bytes, first.tokens) == ("chat-1", "realtime", 100, 1)
    assert first.generation_ms == pytest.approx(200) and first.wait_ms == pytest.approx(50)
    assert first.send_ms == pytest.approx(60) and set(first.causes) == {"generation", "send", "wait"}
    assert "128 tokens" in first.causes["generation"] and "reads slowly" in first.causes["send"]
    on_step(StepNote(10.30, 10.32, frozenset(["chat-1:0"]), 1, 0))
    call.event(event(10.32, 2, 3))
    call.event(event(10.33))
    call.taken()
    call.sent(50)
    second = chunks()[1]
    assert second.tokens == 2 and second.generation_ms == pytest.approx(20) and second.wait_ms == pytest.approx(50)


def test_what_was_taken_during_a_send_that_failed_leaves_with_the_next(profile, chunks):
    _, _, call, clock = profile
    call.event(event(10.0, 1))
    call.taken()
    call.event(event(10.0, 2))
    call.taken()
    call.sent(9)
    call.sent(9)
    assert [chunk.tokens for chunk in chunks()] == [2], "bytes without tokens are not told"


def test_an_engine_that_tells_no_steps_has_no_waits(chunks):
    context = dataclasses.replace(mk_context(says("ok")), clock=VirtualClock(0.0))
    made = StreamProfiler(context)
    call = made.open("chat-1", Tier.BATCH, 0.0)
    call.event(event(0.2, 1))
    call.taken()
    call.sent(1)
    (chunk,) = chunks()
    assert chunk.generation_ms == pytest.approx(200) and chunk.wait_ms == 0
    assert chunk.causes["generation"] == "not known"
    made.close()
    context.engine.stop(0.0)


async def test_every_streamed_token_is_in_one_chunk(chunks):
    context = mk_context(says("hello reader"), profile_streaming=True)
    app = create_app(context)
    for body in (chat(stream=True, n=2), chat()):
        client = Client(body)
        await app(client.scope, client.inbox.get, client.send)
    told = chunks()
    assert {chunk.tier for chunk in told} == {"realtime"} and len({chunk.request for chunk in told}) == 1
    assert sum(chunk.tokens for chunk in told) == 2 * len("hello reader") + 2, "and the tokens that ended them"
    app.services.profiler.close()
    assert app.services.profiler.pauses.note not in gc.callbacks
    context.engine.stop(0.0)


async def test_without_the_setting_nothing_is_profiled(chunks):
    context = mk_context(says("ok"))
    app = create_app(context)
    client = Client(chat(stream=True))
    await app(client.scope, client.inbox.get, client.send)
    assert app.services.profiler is None and chunks() == []
    context.engine.stop(0.0)
