"""An HTTP/2 client that does exactly what a test says, frame by frame."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import h2.config
import h2.connection
import h2.events


class RawH2:
    """One connection. Windows are kept wide open unless `hungry` is false."""

    def __init__(self, port: int, *, hungry: bool = True, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.hungry = hungry
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.events: list[h2.events.Event] = []
        self.closed = False
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def flush(self) -> None:
        """Send what is due."""
        try:
            self.socket.sendall(self.connection.data_to_send())
        except ConnectionError:
            self.closed = True

    def headers(self, path: str, method: str = "POST", extra: dict[str, str] | None = None, end: bool = False) -> int:
        """Open a stream without its body."""
        stream_id = self.connection.get_next_available_stream_id()
        fields = {":method": method, ":path": path, ":scheme": "http", ":authority": "localhost"}
        if method == "POST":
            fields["content-type"] = "application/json"
        fields.update(extra or {})
        self.connection.send_headers(stream_id, list(fields.items()), end_stream=end)
        self.flush()
        return stream_id

    def post(self, path: str, body: Any) -> int:
        """Open a stream with a JSON body."""
        stream_id = self.headers(path)
        self.connection.send_data(stream_id, json.dumps(body).encode(), end_stream=True)
        self.flush()
        return stream_id

    def get(self, path: str) -> int:
        """Open a stream without a body."""
        return self.headers(path, "GET", end=True)

    def reset(self, stream_id: int) -> None:
        """Leave a stream."""
        self.connection.reset_stream(stream_id, 8)
        self.flush()

    def pump(self, until: Callable[[], bool], timeout_s: float = 5.0) -> bool:
        """Take in frames until something holds; False when it does not in time or the connection ends."""
        deadline = time.monotonic() + timeout_s
        while not until():
            left = deadline - time.monotonic()
            if left <= 0 or self.closed:
                return until()
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return until()
            except ConnectionError:
                data = b""
            if not data:
                self.closed = True
                return until()
            for event in self.connection.receive_data(data):
                self.events.append(event)
                if isinstance(event, h2.events.DataReceived) and self.hungry:
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self.flush()
        return True

    def of(self, stream_id: int, kind: type[h2.events.Event]) -> list[Any]:
        """The stream's events of a kind so far."""
        return [each for each in self.events if isinstance(each, kind) and getattr(each, "stream_id", 0) == stream_id]

    def status(self, stream_id: int, timeout_s: float = 5.0) -> int:
        """Wait for the response's head."""
        assert self.pump(lambda: bool(self.of(stream_id, h2.events.ResponseReceived)), timeout_s), "no response"
        return int(dict(self.of(stream_id, h2.events.ResponseReceived)[0].headers)[":status"])

    def data(self, stream_id: int) -> bytes:
        """The stream's data so far."""
        return b"".join(event.data for event in self.of(stream_id, h2.events.DataReceived))

    def ended(self, stream_id: int) -> bool:
        """Whether the stream ended in order or by a reset."""
        return bool(self.of(stream_id, h2.events.StreamEnded) or self.of(stream_id, h2.events.StreamReset))

    def whole(self, stream_id: int, timeout_s: float = 10.0) -> bytes:
        """Wait for the stream's end; all its data."""
        assert self.pump(lambda: self.ended(stream_id), timeout_s), "the stream does not end"
        return self.data(stream_id)
