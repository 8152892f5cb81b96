"""What other threads want of the engine's, until it takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from andes_jax.engine.replies import Reply


class News(NamedTuple):
    """Everything that came since the last time."""

    arrivals: list[Reply]
    pauses: list[tuple[str, bool]]  # request id, and whether it is to pause or to go on
    cancelled: list[str]


class Inbox:
    """Whoever uses it holds the engine's lock."""

    def __init__(self) -> None:
        self._arrivals: list[Reply] = []
        self._pauses: dict[str, bool] = {}
        self._cancelled: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._arrivals or self._pauses or self._cancelled)

    def arrive(self, replies: Iterable[Reply]) -> None:
        """New requests; what was wanted of earlier ones of their names is void."""
        for reply in replies:
            self._cancelled.pop(reply.request.id, None)
            self._pauses.pop(reply.request.id, None)
            self._arrivals.append(reply)

    def cancel(self, request_id: str) -> None:
        """A request is to end."""
        self._cancelled[request_id] = None

    def pause(self, request_id: str) -> None:
        """A request is to rest; the last word counts."""
        self._pauses[request_id] = True

    def resume(self, request_id: str) -> None:
        """A request is to go on."""
        self._pauses[request_id] = False

    def take(self) -> News:
        """Everything, which is then no longer here."""
        news = News(self._arrivals, list(self._pauses.items()), list(self._cancelled))
        self._arrivals, self._pauses, self._cancelled = [], {}, {}
        return news
