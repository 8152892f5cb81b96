"""What lies below an ASGI call: the HTTP/2 stream and its connection, where Hypercorn serves it.

Nothing is patched for this: the bound methods that Hypercorn hands to the application lead from the stream to its
connection. Whatever wraps `send` hides them, so TransportExtension must be the outermost application. On other servers,
and what needs HTTP/2 over HTTP/1.1, every method says that it could not.
"""

from __future__ import annotations

from dataclasses import dataclass

import h2.exceptions
from starlette.types import ASGIApp, Receive, Scope, Send

from server.hypercorn_repairs.h2_protocol import FairH2Protocol
from server.hypercorn_repairs.tcp_server import FairTCPServer

EXTENSION = "andes.transport"


@dataclass(frozen=True, slots=True)
class TransportState:
    """How a call's transport is at a moment. None stands for what it does not tell."""

    round_trip_s: float | None = None  # the least measured
    delivery_bytes_per_s: float | None = None  # what the connection carried last
    stream_bytes: int = 0  # unsent, of the call's HTTP/2 stream
    connection_bytes: int = 0  # unsent, of its connection: in this process and in the kernel
    window_bytes: int | None = None  # what the client lets the HTTP/2 stream send now; may be negative

    @property
    def unsent_bytes(self) -> int:
        """What was written before and what is written now would have to wait for."""
        return self.stream_bytes + self.connection_bytes


class Transport:
    """The transport of one call."""

    __slots__ = ("_connection", "_protocol", "_stream_id")

    def __init__(self, send: Send) -> None:
        stream = getattr(send, "__self__", None)
        protocol = getattr(getattr(stream, "send", None), "__self__", None)
        connection = getattr(getattr(protocol, "send", None), "__self__", None)
        self._connection = connection if isinstance(connection, FairTCPServer) else None
        self._protocol = protocol if isinstance(protocol, FairH2Protocol) else None
        self._stream_id: int = getattr(stream, "stream_id", 0)

    async def send_empty_data(self) -> bool:
        """Send a DATA frame of no bytes, after the response's start. False when there is no HTTP/2 stream for it."""
        if self._protocol is None:
            return False
        try:
            self._protocol.connection.send_data(self._stream_id, b"")
        except h2.exceptions.ProtocolError:
            return False
        await self._protocol._flush()
        return True

    def offer(self, data: bytes) -> bool:
        """Take a part of the response's body, after its start, if it need not wait; False: it has to be sent.

        A token costs a fraction of what it does by way of ASGI's messages.
        """
        if self._protocol is not None:
            return self._protocol.offer(self._stream_id, data)
        return self._connection is not None and self._connection.offer_chunk(data)

    def round_trip_s(self) -> float | None:
        """The least time of a round trip to the client, as the kernel has measured it; None where it is not told."""
        facts = None if self._connection is None else self._connection.link.facts()
        return None if facts is None else facts.round_trip_s

    def state(self) -> TransportState:
        """The state now, cheap enough for every send: streams of a connection share what the kernel is asked for."""
        if self._connection is None:
            return TransportState()
        facts = self._connection.link.facts()
        waiting = self._connection.writer.transport.get_write_buffer_size()
        stream, window = (0, None) if self._protocol is None else self._protocol.backlog(self._stream_id)
        if facts is None:
            return TransportState(None, None, stream, waiting, window)
        return TransportState(
            facts.round_trip_s, facts.delivery_bytes_per_s, stream, waiting + facts.unsent_bytes, window
        )

    def asked_weight(self) -> int | None:
        """The weight (1-256) that the client has given the HTTP/2 stream; None when it has not."""
        return None if self._protocol is None else self._protocol.priority.asked(self._stream_id)

    def set_weight(self, weight: int) -> bool:
        """Give the HTTP/2 stream a weight (1-256) on its connection. False when there is no such stream."""
        return self._protocol is not None and self._protocol.priority.assign(self._stream_id, weight)


class TransportExtension:
    """ASGI application that gives every HTTP call its Transport, as scope["extensions"]["andes.transport"]."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope.setdefault("extensions", {})[EXTENSION] = Transport(send)
        await self.app(scope, receive, send)


def transport_of(scope: Scope) -> Transport | None:
    """The call's transport, where TransportExtension is outermost."""
    return scope.get("extensions", {}).get(EXTENSION)
