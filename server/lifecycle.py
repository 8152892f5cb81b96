"""Which calls are running, and whether new ones are still taken."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from server.auth import OPEN_PATHS
from server.errors import shutting_down

_STILL_ANSWERED = OPEN_PATHS | {"/metrics"}


class Lifecycle:
    """The calls of one application. Used from its event loop alone."""

    def __init__(self) -> None:
        self.draining = False
        self._calls: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self, task: asyncio.Task[Any]) -> None:
        """A call is being answered by this task."""
        self._calls.add(task)
        self._idle.clear()

    def end(self, task: asyncio.Task[Any]) -> None:
        """The call is over."""
        self._calls.discard(task)
        if not self._calls:
            self._idle.set()

    @property
    def running(self) -> int:
        """Calls being answered."""
        return len(self._calls)

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no call is running; False when some still are after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def cancel_calls(self) -> None:
        """End every call at once."""
        for task in list(self._calls):
            task.cancel()


class Gate:
    """ASGI application that keeps count of calls and turns new ones away while draining. Raises ApiError (503)."""

    def __init__(self, app: ASGIApp, lifecycle: Lifecycle) -> None:
        self.app = app
        self._lifecycle = lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self.app(scope, receive, send)
            return
        if self._lifecycle.draining and scope["path"] not in _STILL_ANSWERED:
            raise shutting_down()
        self._lifecycle.begin(task)
        try:
            await self.app(scope, receive, send)
        finally:
            self._lifecycle.end(task)
