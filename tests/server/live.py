"""A real server on a real socket, in a thread of the test."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from server.context import ServerContext
from server.loops import loop_factory
from server.serve import Serving, bind


class LiveServer:
    """Handle of a running server."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.engine: Any = context.engine
        self._bound = bind(context.settings)
        self.urls = self._bound.urls
        self.config = self._bound.config
        self.url = self.urls[0]
        self.port = urlsplit(self.url).port or 0
        self.exit_code: int | None = None
        self._announced = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._announced.wait(10), "the server does not start"

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory(self.context.settings.event_loop)) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.serving = Serving(self.context, self._bound, lambda urls: self._announced.set())
        self.exit_code = await self.serving.run()

    def signal(self, number: int = signal.SIGTERM) -> None:
        """What the process would do on a signal."""
        self.loop.call_soon_threadsafe(self.serving.on_signal, number)

    def end(self) -> int:
        """End at once; the exit code."""

        def twice() -> None:
            self.serving.on_signal(signal.SIGTERM)
            self.serving.on_signal(signal.SIGTERM)

        self.loop.call_soon_threadsafe(twice)
        return self.join()

    def join(self, timeout_s: float = 10.0) -> int:
        """Wait for the server's end; its exit code."""
        self._thread.join(timeout_s)
        assert self.exit_code is not None, "the server does not end"
        return self.exit_code

    def ask[T](self, question: Callable[[], T]) -> T:
        """Run something in the server's loop."""

        async def answer() -> T:
            return question()

        return asyncio.run_coroutine_threadsafe(answer(), self.loop).result(5)

    def counts(self) -> dict[str, int]:
        """What must be back at its start value once nothing runs."""
        services = self.serving.app.services
        return self.ask(
            lambda: {
                "requests": services.front_end.open_requests,
                "calls": services.lifecycle.running,
                "engine": len(self.engine.live),
                "streams": int(services.metrics.streams_open._value.get()),
            }
        )


@contextmanager
def live_server(context: ServerContext) -> Iterator[LiveServer]:
    """A server for the length of a block, ended at once at its end."""
    server = LiveServer(context)
    try:
        yield server
    finally:
        if server.exit_code is None:
            server.end()
