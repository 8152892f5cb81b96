"""Calls end when their client leaves, whatever they are doing."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from starlette.types import Receive


class UntilDisconnect:
    """Context that cancels its body when the client disconnects, and then ends quietly with `gone` true.

    For use once the request body is read: it takes every message the call still receives.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.gone = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("needs a task to cancel")
        self._task = task
        self._cancelling = task.cancelling()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self.gone:
            self._watcher.cancel()
            return False
        # Others may have cancelled as well, such as the end of a drain.
        alone = self._task.uncancel() <= self._cancelling
        return alone and kind is not None and issubclass(kind, asyncio.CancelledError)
