"""HTTP/1.1 responses in pieces of every size."""

from __future__ import annotations

import pytest

from andes_jax.loadtest.http_response import ResponseError, ResponseParser


class Taken:
    """A receiver that keeps everything."""

    def __init__(self) -> None:
        self.head: tuple[int, str] | None = None
        self.pieces: list[tuple[bytes, float]] = []

    def begin(self, status: int, content_type: str) -> None:
        self.head = status, content_type

    def body(self, data: bytes, at_s: float) -> None:
        assert data
        self.pieces.append((data, at_s))

    @property
    def whole(self) -> bytes:
        return b"".join(data for data, _ in self.pieces)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n \r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n"
SIZED = HEAD + b"content-length: 5\r\n\r\nhello"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("response", "body"), [(CHUNKED, b"hello 0123456789"), (SIZED, b"hello")])
def test_bodies_come_whole_in_pieces_of_any_size(response, body, size):
    taken = Taken()
    parser = ResponseParser(taken)
    for start in range(0, len(response), size):
        assert not parser.done
        parser.feed(response[start : start + size], float(start))
    assert taken.head == (200, "text/event-stream")
    assert taken.whole == body and parser.done and parser.reusable
    parser.end()  # nothing is missing


def test_a_chunk_is_handed_on_before_it_is_whole():
    taken = Taken()
    parser = ResponseParser(taken)
    parser.feed(HEAD + b"transfer-encoding: chunked\r\n\r\n", 0.0)
    parser.feed(b"a\r\n01234", 1.0)
    parser.feed(b"56789", 2.0)
    assert taken.pieces == [(b"01234", 1.0), (b"56789", 2.0)] and not parser.done


def test_an_interim_response_is_passed_over():
    taken = Taken()
    parser = ResponseParser(taken)
    parser.feed(b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED, 0.0)
    assert taken.whole == b"hello" and parser.done


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
def test_without_a_length_the_connection_ends_the_body(version):
    taken = Taken()
    parser = ResponseParser(taken)
    parser.feed(version + b" 200 OK\r\n\r\nhel", 0.0)
    parser.feed(b"lo", 0.0)
    assert not parser.done
    parser.end()
    assert taken.whole == b"hello" and parser.done and not parser.reusable


@pytest.mark.parametrize(
    ("head", "reusable"),
    [(b"HTTP/1.1 204 X\r\n\r\n", True), (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", False)],
)
def test_responses_without_a_body(head, reusable):
    parser = ResponseParser(Taken())
    parser.feed(head, 0.0)
    assert parser.done and parser.reusable is reusable


@pytest.mark.parametrize("cut", [0, 10, len(HEAD) + 2, len(CHUNKED) - 30, len(CHUNKED) - 1])
def test_a_response_that_ends_early_is_an_error(cut):
    parser = ResponseParser(Taken())
    if cut:
        parser.feed(CHUNKED[:cut], 0.0)
    with pytest.raises(ResponseError) as caught:
        parser.end()
    assert caught.value.silent is (cut == 0)


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        HEAD + b"content-length: x\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n-5\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"1" * 5000,
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
        SIZED + b"!",
        CHUNKED + b"!",
    ],
)
def test_what_is_no_response_is_an_error(response):
    with pytest.raises(ResponseError):
        ResponseParser(Taken()).feed(response, 0.0)
