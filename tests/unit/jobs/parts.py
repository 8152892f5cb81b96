"""What tests of jobs share: waiting that takes no time, and servers that are functions."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from andes_jax.jobs.client import HttpClient
from andes_jax.jobs.waiting import Patience


class Waits:
    """A clock that only sleeping moves on; `slept` has every wait in seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def patience(self, limit_s: float = 100.0) -> Patience:
        return Patience(limit_s, sleep=self.sleep, clock=lambda: self.now_s)


def served(handler: Callable[[httpx.Request], httpx.Response]) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(handler))


def client(handler, waits: Waits, troubles: list | None = None, limit_s: float = 100.0) -> HttpClient:
    told = [] if troubles is None else troubles
    return HttpClient(served(handler), patience=lambda: waits.patience(limit_s), trouble=told.append)
