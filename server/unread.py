"""Streams that their client leaves unread: the replies are paused, so that their work goes to those who read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from server.front_end import Call
from server.transport import Transport

SLOW_ROUND_TRIP_S = 0.3  # above it a client gets twice the time


class UnreadWatch:
    """Watches over the sends of one call: a send that has to wait for longer than a while pauses the call's replies.

    A send waits when what the client has not read fills the buffers between it and here. Once the send is over, the
    client has read, and the replies go on. A call that ends while paused is cancelled like any other.
    """

    def __init__(self, call: Call, transport: Transport | None, timeout_s: float) -> None:
        self._call = call
        self._transport = transport
        self._timeout_s = timeout_s
        self._paused = False

    async def over(self, send: Awaitable[None]) -> None:
        """Wait for a send, with a timer for those alone that are not over at once."""
        loop = asyncio.get_running_loop()
        task = asyncio.Task(_done(send), loop=loop, eager_start=True)
        if task.done():
            return task.result()
        timer = loop.call_later(self._limit_s(), self._pause)
        try:
            await task
        finally:
            timer.cancel()
        if self._paused:
            self._paused = False
            self._call.resume()

    def _limit_s(self) -> float:
        round_trip_s = None if self._transport is None else self._transport.round_trip_s()
        slow = round_trip_s is not None and round_trip_s > SLOW_ROUND_TRIP_S
        return 2 * self._timeout_s if slow else self._timeout_s

    def _pause(self) -> None:
        self._paused = True
        self._call.pause()


async def _done(send: Awaitable[None]) -> None:
    await send
