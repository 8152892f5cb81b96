"""An event of Hypercorn's kind that plain functions can set as well."""

from __future__ import annotations

from hypercorn.asyncio.worker_context import EventWrapper


class Wakeup(EventWrapper):
    """Wakes a task."""

    def call(self) -> None:
        """Set it."""
        self._event.set()
