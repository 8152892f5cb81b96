"""What lies below an ASGI call: the HTTP/2 stream and its connection, where Hypercorn serves it.

Nothing is patched for this: the bound methods that Hypercorn hands to the application lead from the stream to its
connection. Whatever wraps `send` hides them, so TransportExtension must be the outermost application. On other servers,
and what needs HTTP/2 over HTTP/1.1, every method says that it could not.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

import h2.exceptions
from starlette.types import ASGIApp, Receive, Scope, Send

EXTENSION = "andes.transport"
_TCP_INFO = getattr(socket, "TCP_INFO", None)  # not on every system
_ROUND_TRIP = struct.Struct("=68xI")  # the place of tcpi_rtt, in microseconds, in struct tcp_info of linux/tcp.h


class Transport:
    """The transport of one call."""

    __slots__ = ("_connection", "_protocol", "_stream_id")

    def __init__(self, send: Send) -> None:
        stream = getattr(send, "__self__", None)
        protocol = getattr(getattr(stream, "send", None), "__self__", None)
        self._connection = getattr(getattr(protocol, "send", None), "__self__", None)
        is_h2 = all(hasattr(protocol, name) for name in ("priority", "connection", "stream_buffers"))
        self._protocol = protocol if is_h2 else None
        self._stream_id = getattr(stream, "stream_id", None) if is_h2 else None

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

    def round_trip_s(self) -> float | None:
        """The smoothed time of a round trip to the client, as the kernel has measured it; None where it is not told."""
        writer: Any = getattr(self._connection, "writer", None)
        peer = None if writer is None else writer.get_extra_info("socket")
        if peer is None or _TCP_INFO is None or peer.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        try:
            info: bytes = peer.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _ROUND_TRIP.size)
        except OSError:  # closed meanwhile
            return None
        if len(info) < _ROUND_TRIP.size:
            return None
        microseconds: int = _ROUND_TRIP.unpack(info)[0]
        return microseconds / 1e6


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
