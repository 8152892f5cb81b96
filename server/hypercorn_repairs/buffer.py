"""Bytes of one HTTP/2 stream between the application and the connection."""

from __future__ import annotations

import asyncio

from hypercorn.protocol.h2 import BufferCompleteError, StreamBuffer
from hypercorn.typing import Event as IOEvent

STREAM_HIGH = 64 * 1024  # the writer waits at or above so many unsent bytes
STREAM_LOW = 32 * 1024  # and goes on below so many


class StalledError(ConnectionError):
    """The peer has left the stream unread for longer than is allowed."""


class FairStreamBuffer(StreamBuffer):
    """A bounded buffer whose writer waits while the peer does not read.

    Hypercorn's own lets the writer go whenever less than a frame was taken, an empty one included, so that a closed
    window does not hold it.
    """

    stall_timeout_s: float = 30.0

    def __init__(self, event_class: type[IOEvent]) -> None:
        super().__init__(event_class)
        self._emptied = asyncio.Event()  # in place of the inherited ones, which only coroutines can set
        self._relieved = asyncio.Event()

    def offer(self, data: bytes) -> bool:
        """Add data for which nobody has to wait; False: it is not added, and has to be pushed."""
        if self._complete or len(self.buffer) + len(data) >= STREAM_HIGH:
            return False
        self.buffer += data
        self._emptied.clear()
        return True

    async def push(self, data: bytes) -> None:
        """Add data, then wait for room. Raises BufferCompleteError when closed, and StalledError."""
        if self._complete:
            raise BufferCompleteError()
        self.buffer += data
        self._emptied.clear()
        while len(self.buffer) >= STREAM_HIGH:
            self._relieved.clear()
            await self._progress(self._relieved)
            if self._complete:
                raise BufferCompleteError()

    async def _progress(self, change: asyncio.Event) -> None:
        """Wait for a change. Raises StalledError when nothing leaves the buffer for the timeout."""
        while True:
            before = len(self.buffer)
            try:
                async with asyncio.timeout(self.stall_timeout_s):
                    await change.wait()
                    return
            except TimeoutError:
                if len(self.buffer) >= before:
                    raise StalledError("the peer does not read") from None

    def take(self, max_length: int) -> bytes:
        """Take at most `max_length` bytes, and let the writer go on once enough is gone."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if data and len(self.buffer) < STREAM_LOW:
            self._relieved.set()
        if not self.buffer:
            self._emptied.set()
        return data

    async def drain(self) -> None:
        """Wait until everything is sent. Raises StalledError."""
        if self.buffer:
            await self._progress(self._emptied)

    async def close(self) -> None:
        """Drop what is left; whoever waits goes on."""
        self._complete = True
        self.buffer = bytearray()
        self._emptied.set()
        self._relieved.set()
