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

    async def push(self, data: bytes) -> None:
        """Add data, then wait for room. Raises BufferCompleteError when closed, and StalledError."""
        if self._complete:
            raise BufferCompleteError()
        self.buffer.extend(data)
        await self._is_empty.clear()
        while len(self.buffer) >= STREAM_HIGH:
            await self._paused.clear()
            await self._progress(self._paused)
            if self._complete:
                raise BufferCompleteError()

    async def _progress(self, change: IOEvent) -> None:
        """Wait for a change. Raises StalledError when nothing leaves the buffer for the timeout."""
        while True:
            before = len(self.buffer)
            try:
                async with asyncio.timeout(self.stall_timeout_s):
                    return await change.wait()
            except TimeoutError:
                if len(self.buffer) >= before:
                    raise StalledError("the peer does not read") from None

    async def pop(self, max_length: int) -> bytes:
        """Take at most `max_length` bytes, and let the writer go on once enough is gone."""
        count = min(len(self.buffer), max_length)
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        if count and len(self.buffer) < STREAM_LOW and not self._paused.is_set():
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data

    async def drain(self) -> None:
        """Wait until everything is sent. Raises StalledError."""
        if self.buffer:
            await self._progress(self._is_empty)
