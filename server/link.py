"""What the kernel knows of a connection: its round trip, what it carries, and what it has not sent yet."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

FRESH_S = 0.01  # facts of one connection are asked for at most so often, however many streams it has
_TCP_INFO = getattr(socket, "TCP_INFO", None)  # not on every system
# Places in struct tcp_info of linux/tcp.h: tcpi_notsent_bytes, tcpi_min_rtt (microseconds), tcpi_delivery_rate.
_FACTS = struct.Struct("=144xII8xQ")
_NOT_MEASURED = 2**32 - 1


class LinkFacts(NamedTuple):
    """None where it was not measured yet."""

    round_trip_s: float | None  # the least of the last minutes: the smoothed one counts the client's delayed answers
    delivery_bytes_per_s: float | None  # the last rate at which the client acknowledged bytes
    unsent_bytes: int  # of what the kernel was given


class Link:
    """The facts of one connection, read when asked for and kept for a moment."""

    __slots__ = ("_facts", "_now", "_read_at_s", "_socket")

    def __init__(self, peer: Any, now: Callable[[], float]) -> None:
        """`peer` is the socket, or whatever an event loop shows for it; None where there is none."""
        is_tcp = peer is not None and _TCP_INFO is not None and peer.family in (socket.AF_INET, socket.AF_INET6)
        self._socket = peer if is_tcp else None
        self._now = now
        self._facts: LinkFacts | None = None
        self._read_at_s = float("-inf")

    def facts(self) -> LinkFacts | None:
        """At most FRESH_S old; None where the kernel tells nothing, as of Unix sockets and closed ones."""
        if self._socket is None:
            return None
        now_s = self._now()
        if now_s - self._read_at_s >= FRESH_S:
            self._read_at_s = now_s
            self._facts = self._read()
        return self._facts

    def _read(self) -> LinkFacts | None:
        assert self._socket is not None and _TCP_INFO is not None
        try:
            info: bytes = self._socket.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _FACTS.size)
        except OSError:  # closed meanwhile
            return None
        if len(info) < _FACTS.size:  # an older kernel
            return None
        unsent, round_trip, rate = _FACTS.unpack(info)
        measured = 0 < round_trip < _NOT_MEASURED
        return LinkFacts(round_trip / 1e6 if measured else None, float(rate) or None, unsent)
