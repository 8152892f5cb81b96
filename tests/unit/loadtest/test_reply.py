"""Replies as servers send them, whole and broken."""

from __future__ import annotations

import orjson
import pytest

from andes_jax.loadtest.reply import StreamedReply


def streamed(*pieces: bytes) -> StreamedReply:
    reply = StreamedReply()
    reply.begin(200, "text/event-stream; charset=utf-8")
    for number, piece in enumerate(pieces):
        reply.body(piece, float(number))
    reply.conclude()
    return reply


def refused(status: int, body: bytes) -> StreamedReply:
    reply = StreamedReply()
    reply.begin(status, "application/json")
    reply.body(body, 0.0)
    reply.conclude()
    return reply


def data(**event) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"


def text(words: str, finish: str | None = None, **more) -> bytes:
    return data(choices=[{"index": 0, "text": words, "finish_reason": finish}], **more)


USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "andes": {"qoe": 1.0, "waited_ms": 2.5}}


def test_a_whole_stream():
    reply = streamed(
        b": \n\n", text("a", usage=None), text("bc") + text("d"), text("", "length"), data(choices=[], usage=USAGE)
    )
    assert (reply.log.times_s, reply.log.letters) == ([1.0, 2.0, 2.0, 3.0], [1, 2, 1, 0])
    assert reply.log.totals == [None] * 4
    assert (reply.finish, reply.usage, reply.error) == ("length", USAGE, None)


@pytest.mark.parametrize("size", [1, 5, 64])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_events_in_pieces_of_any_size(size, line_end):
    stream = (text("é") + text("b", "stop", usage={"completion_tokens": 2}) + b"data: [DONE]\n\n").replace(
        b"\n", line_end
    )
    reply = streamed(*(stream[start : start + size] for start in range(0, len(stream), size)))
    assert (reply.log.letters, reply.log.totals, reply.finish) == ([1, 1], [None, 2], "stop")
    assert reply.done and reply.error is None


def test_an_event_counts_when_its_end_is_there():
    first = text("a")
    reply = streamed(first[:10], first[10:], text("", "stop"))
    assert reply.log.times_s == [1.0, 2.0]


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (text("a"), "without a finish_reason"),
        (b"", "without a finish_reason"),
        (b"data: {nonsense\n\n", "not as the API has them"),
        (b"data: []\n\n", "not as the API has them"),
        (data(hello=1), "not as the API has them"),
        (data(choices=[None]), "not as the API has them"),
        (data(choices=[], usage=7) + text("", "stop"), "not as the API has them"),
        (data(error={"message": "the step\nfailed", "code": "generation_failed"}), "the step failed"),
        (b"data: " + b"x" * 5_000_000, "does not end"),
    ],
)
def test_broken_streams_say_what_is_wrong(stream, words):
    reply = streamed(stream)
    assert reply.error is not None and words in reply.error and not reply.refused


def test_the_first_error_of_a_stream_stays():
    reply = streamed(text("a"), data(error={"message": "out of order"}), b"data: [DONE]\n\n")
    assert reply.error == "out of order" and reply.log.letters == [1]


@pytest.mark.parametrize(
    ("status", "body", "error", "is_refusal"),
    [
        (503, b'{"error":{"message":"busy","code":"engine_overloaded"}}', "HTTP 503: busy", True),
        (503, b'{"error":{"message":"dead","code":"engine_failed"}}', "HTTP 503: dead", False),
        (429, b'{"error":"slow down"}', "HTTP 429: slow down", True),
        (400, b'{"error":{"message":"bad","param":"prompt"}}', "HTTP 400: bad", False),
        (422, b'{"detail":"unknown field"}', "HTTP 422: unknown field", False),
        (502, b"<html>proxy</html>", "HTTP 502: <html>proxy</html>", False),
        (500, b"", "HTTP 500: no reason given", False),
        (200, b'{"choices":[]}', "the reply is no event stream", False),
    ],
)
def test_responses_that_are_no_stream(status, body, error, is_refusal):
    reply = refused(status, body)
    assert (reply.error, reply.refused) == (error, is_refusal)


def test_an_overload_in_mid_stream_is_a_refusal():
    assert streamed(data(error={"message": "no room", "code": "engine_overloaded"})).refused


def test_what_is_kept_of_an_error_is_bounded():
    reply = StreamedReply()
    reply.begin(500, "text/plain")
    for _ in range(10):
        reply.body(b"x" * 50_000, 0.0)
    reply.conclude()
    assert reply.whole() is None and len(reply.error or "") < 1000
