"""DATA frames in the middle of a stream, written without the library's state machine.

A stream that is open to us stays as it is when data is sent on it: only the two windows move. The library spends
several times what the rest of a token costs here on finding that out, on a frame object and on its log. Whatever
changes a stream's state (its head, its last frame, resets) still goes through the library.
"""

from __future__ import annotations

import struct

from h2.connection import H2Connection

_HEAD = struct.Struct(">BHBBL")  # 24 bits of length, type, flags, stream
_DATA, _NO_FLAGS = 0x0, 0x0


class DataFrames:
    """The frames of one connection that were made and not yet taken."""

    def __init__(self, connection: H2Connection) -> None:
        self._connection = connection
        self._made = bytearray()

    def add(self, stream_id: int, data: bytes) -> bool:
        """Make a frame of data that fits a frame and both windows; False: the stream is not open, ask the library."""
        stream = self._connection.streams.get(stream_id)
        if stream is None or not stream.open:
            return False
        size = len(data)
        stream.outbound_flow_control_window -= size
        self._connection.outbound_flow_control_window -= size
        self._made += self._connection.data_to_send()  # what the library has made before goes before
        self._made += _HEAD.pack(size >> 16, size & 0xFFFF, _DATA, _NO_FLAGS, stream_id)
        self._made += data
        return True

    def take(self) -> bytes:
        """What is to be written, of the library's making too, in the order in which it was made."""
        if not self._made:
            return self._connection.data_to_send()
        taken = bytes(self._made) + self._connection.data_to_send()
        self._made.clear()
        return taken
