"""HTTP/1.1 responses as they arrive: a parser that hands body bytes on without waiting for more of them."""

from __future__ import annotations

from typing import Protocol

_MAX_HEAD = 64 * 1024
_MAX_LINE = 4 * 1024  # of a chunk's size


class ResponseError(Exception):
    """What arrived is no HTTP/1.1 response, or not all of one; `silent`: not a byte arrived."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


class Receiver(Protocol):
    """Takes one response."""

    def begin(self, status: int, content_type: str) -> None:
        """The head is there."""

    def body(self, data: bytes, at_s: float) -> None:
        """Bytes of the body that arrived at `at_s`."""


class ResponseParser:
    """One response after another from the bytes of one connection.

    `done` says that the response is whole, and `reusable` that the connection can then carry another.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._pending = b""  # of the head or of a chunk's size; never of a body
        self._left: int | None = None  # bytes of the body, or of its current chunk; None: up to the connection's end
        self._in_head = True
        self._chunked = False
        self._in_trailers = False
        self._begun = False
        self.done = False
        self.reusable = False

    def feed(self, data: bytes, at_s: float) -> None:
        """Take what arrived. Raises ResponseError; also for bytes after a response's end."""
        self._begun = True
        if self._in_head:
            data = self._head(self._pending + data)
            if self._in_head:
                return
        if self._chunked and not self.done:
            data = self._chunks(data, at_s)
        elif not self.done:
            data = self._plain(data, at_s)
        if data:
            raise ResponseError(f"{len(data)} bytes after the response's end")

    def end(self) -> None:
        """The connection has ended. Raises ResponseError unless that ends the response too."""
        if self.done:
            return
        if self._in_head or self._chunked or self._left is not None:
            words = (
                "the connection ended before the reply did" if self._begun else "the connection ended, no reply came"
            )
            raise ResponseError(words, silent=not self._begun)
        self.done = True

    def _head(self, data: bytes) -> bytes:
        """Read a head if it is all there; returns what follows it."""
        head, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            if len(data) > _MAX_HEAD:
                raise ResponseError("the response's head does not end")
            self._pending = data
            return b""
        self._pending = b""
        first, *lines = head.split(b"\r\n")
        version, _, reason = first.partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not reason[:3].isdigit():
            raise ResponseError(f"no HTTP response: {first[:60]!r}")
        status = int(reason[:3])
        if 100 <= status < 200:
            return self._head(rest)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self._in_head = False
        self.reusable = version == b"HTTP/1.1" and headers.get(b"connection", b"").lower() != b"close"
        self._body_length(status, headers)
        self._receiver.begin(status, headers.get(b"content-type", b"").decode("latin-1"))
        return rest

    def _body_length(self, status: int, headers: dict[bytes, bytes]) -> None:
        if headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked"):
            self._chunked, self._left = True, 0
        elif status in (204, 304):
            self.done = True
        elif (length := headers.get(b"content-length")) is None:
            self.reusable = False
        elif length.isdigit():
            self._left = int(length)
            self.done = self._left == 0
        else:
            raise ResponseError(f"content-length is {length[:20]!r}")

    def _plain(self, data: bytes, at_s: float) -> bytes:
        if self._left is None:
            self._receiver.body(data, at_s)
            return b""
        taken, rest = data[: self._left], data[self._left :]
        self._left -= len(taken)
        if taken:
            self._receiver.body(taken, at_s)
        self.done = self._left == 0
        return rest

    def _chunks(self, data: bytes, at_s: float) -> bytes:
        """Hand chunks on as far as they are there; returns what follows the last one."""
        if self._pending:
            data, self._pending = self._pending + data, b""
        position, size = 0, len(data)
        while position < size:
            if self._left:
                end = min(position + self._left, size)
                self._receiver.body(data[position:end], at_s)
                self._left -= end - position
                position = end
                continue
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                self._pending = data[position:]
                if len(self._pending) > _MAX_LINE:
                    raise ResponseError("a chunk's size does not end")
                return b""
            line = data[position:line_end]
            position = line_end + 2
            if self._in_trailers:
                if not line:
                    self.done = True
                    return data[position:]
            elif line:  # an empty one ends the chunk before
                self._left = _chunk_size(line)
                self._in_trailers = self._left == 0
        return b""


def _chunk_size(line: bytes) -> int:
    digits = line.split(b";", 1)[0].strip()
    try:
        if digits[:1] in (b"+", b"-"):
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise ResponseError(f"a chunk's size is {line[:20]!r}") from None
