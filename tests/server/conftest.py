"""Fixtures of the server's tests: applications to call in process, and servers on real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from server.app import create_app
from server.context import ServerContext
from tests.server.live import LiveServer, live_server
from tests.server.parts import mk_context, says

Connect = Callable[..., httpx.AsyncClient]
Start = Callable[..., LiveServer]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """connect(context) is a client that calls a new application in this process."""
    contexts: list[ServerContext] = []

    def make(context: ServerContext | None = None, **headers: str) -> httpx.AsyncClient:
        context = context or mk_context(says("Hello."))
        contexts.append(context)
        transport = httpx.ASGITransport(app=create_app(context))
        return httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers)

    yield make
    for context in contexts:
        context.engine.stop(0)


@pytest.fixture(params=["uvloop", "asyncio"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """start(script, **settings) is a server on a real socket, ended with the test: once on each event loop."""
    with ExitStack() as stack:

        def make(*arguments: Any, **keywords: Any) -> LiveServer:
            keywords.setdefault("event_loop", request.param)
            return stack.enter_context(live_server(mk_context(*arguments, **keywords)))

        yield make
