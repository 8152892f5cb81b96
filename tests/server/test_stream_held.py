"""Text that waits for more leaves whole, and together."""

from __future__ import annotations

import asyncio

import h2.events
import httpx
import pytest

from andes_jax.request import FinishReason
from server.app import create_app
from server.chunking import Hold
from tests.server.fake_engine import letters
from tests.server.parts import chat, chat_text, events_of, mk_context, says
from tests.server.raw_h2 import RawH2
from tests.server.test_generation import Client, settled


def contents_of(data: bytes) -> list[str]:
    """What each event says, of those that say something."""
    choices = [choice for event in events_of(data) for choice in event["choices"]]
    return [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]


@pytest.mark.parametrize("h2", [False, True])
def test_tokens_that_leave_together_are_one_event_and_the_first_leaves_alone(start, monkeypatch, h2):
    released = []

    def until_all_are_there(situation, now, limits):
        released.append(situation.held_bytes)
        return None if situation.urgent else Hold(now + 60, 12)

    monkeypatch.setattr("server.pace.decide", until_all_are_there)
    server = start(says("abcdefghijklmnopqrstuvwxyz"), gap_s=0.002)
    with httpx.Client(http1=not h2, http2=h2, timeout=10) as client:
        data = client.post(server.url + "/v1/chat/completions", json=chat(stream=True)).content
    assert [len(each) for each in contents_of(data)] == [1, 12, 12, 1]
    assert "".join(contents_of(data)) == "abcdefghijklmnopqrstuvwxyz"


def test_a_flush_is_one_frame(start, monkeypatch):
    monkeypatch.setattr("server.pace.decide", lambda situation, now, limits: Hold(now + 60, 8))
    server = start(says("abcdefghijklmnopq"), gap_s=0.002)
    with RawH2(server.port) as client:
        stream_id = client.post("/v1/chat/completions", chat(stream=True, n=2))
        client.whole(stream_id)
        frames = [event.data for event in client.of(stream_id, h2.events.DataReceived) if event.data]
    assert all(frame.startswith(b"data: ") and frame.endswith(b"\n\n") for frame in frames)
    assert max(frame.count(b"data: ") for frame in frames) >= 2  # both choices in one


@pytest.mark.parametrize("finish", [FinishReason.FAILED, FinishReason.CANCELLED])
async def test_nothing_held_is_lost_by_a_fault(connect, monkeypatch, finish):
    monkeypatch.setattr("server.pace.decide", lambda situation, now, limits: Hold(now + 60, 1 << 20))
    context = mk_context(says("abcdef"), gap_s=0.002)
    advance = context.engine._advance

    def failing_last(live):
        event = advance(live)
        return event if event.finish is None else event._replace(finish=finish, message="it broke")

    context.engine._advance = failing_last
    answer = await connect(context).post("/v1/chat/completions", json=chat(stream=True))
    *events, error = events_of(answer.content)
    assert chat_text(events) == "abcdef" and "error" in error


async def test_leaving_while_text_is_held_ends_the_generation(connect, monkeypatch):
    monkeypatch.setattr("server.pace.decide", lambda situation, now, limits: Hold(now + 60, 1 << 20))
    context = mk_context(gap_s=0.002)
    client = Client(chat(stream=True, max_tokens=1000))
    app = create_app(context)
    call = asyncio.create_task(app(client.scope, client.inbox.get, client.send))
    await settled(lambda: len(client.sent) >= 3)  # head, comment, first text
    assert app.services.pacing.streams == 1
    client.inbox.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(call, 5)
    assert context.engine.cancelled and app.services.pacing.streams == 0
    context.engine.stop(0)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_drain_that_ends_streams_sends_what_is_held(start, adaptive):
    server = start(gap_s=0.002, adaptive_chunks=adaptive, send_interval_s=1.0, shutdown_timeout_s=0.1)
    with (
        httpx.Client(timeout=10) as client,
        client.stream("POST", server.url + "/v1/chat/completions", json=chat(stream=True, max_tokens=1900)) as answer,
    ):
        parts = answer.iter_raw()
        data = next(parts)
        server.signal()
        data += b"".join(parts)
    *events, error = events_of(data)
    assert error["error"]["code"] == "shutting_down"
    text = chat_text(events)
    assert text and text in bytes(letters(server.engine.submitted[0])).decode()
