"""Serves until told to stop, and drains."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from hypercorn.asyncio.run import worker_serve
from hypercorn.utils import wrap_app

from andes_jax.remote.listener import Listener
from server.addresses import LAST_EVENTS_S, BindError, BoundServer, bind
from server.app import create_app
from server.context import ServerContext
from server.grpc_generation import start_generation
from server.loops import loop_factory

logger = logging.getLogger("andes_jax.server")

__all__ = ["BindError", "BoundServer", "Serving", "bind", "serve"]


def serve(
    context: ServerContext,
    bound: BoundServer | None = None,
    *,
    announce: Callable[[tuple[str, ...]], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, then drain; returns the process' exit code.

    0 after an orderly end, 128 + the signal's number after a second signal, 1 with one line on stderr when the
    addresses cannot be had. `announce` is given the URLs once connections are taken; the default prints them. The
    engine must have been started by whoever made it; it is stopped here.
    """
    try:
        bound = bind(context.settings) if bound is None else bound
    except BindError as error:
        print(f"andes-jax: {error}", file=sys.stderr)
        return 1
    with asyncio.Runner(loop_factory=loop_factory(context.settings.event_loop)) as runner:
        return runner.run(_serve_until_signal(context, bound, announce or _print_urls))


async def _serve_until_signal(
    context: ServerContext, bound: BoundServer, announce: Callable[[tuple[str, ...]], None]
) -> int:
    serving = Serving(context, bound, announce)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_fault)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.on_signal, number)
    return await serving.run()


def _on_loop_fault(loop: asyncio.AbstractEventLoop, fault: dict[str, Any]) -> None:
    error = fault.get("exception")
    if isinstance(error, OSError):  # a peer that leaves in the middle of a TLS handshake, for one
        logger.debug("a connection failed: %s", type(error).__name__)
    else:
        loop.default_exception_handler(fault)


class Serving:
    """One server at work. To be made and used inside its event loop."""

    def __init__(self, context: ServerContext, bound: BoundServer, announce: Callable[[tuple[str, ...]], None]) -> None:
        self._context = context
        self._bound = bound
        self._announce = announce
        self._signals: list[int] = []
        self._asked = asyncio.Event()
        self._asked_again = asyncio.Event()
        self._listener: Listener | None = None  # of gRPC
        self._urls = bound.urls
        self.app = create_app(context)

    async def run(self) -> int:
        """Serve until told to stop; the exit code. Raises ListenError where gRPC cannot be served."""
        try:
            if self._context.settings.grpc_port is not None:
                self._listener, url = await start_generation(self.app.services)
                self._urls += (url,)
            self.app.batches.start()
            await worker_serve(
                wrap_app(cast(Any, self.app), self._bound.config.wsgi_max_body_size, "asgi"),
                self._bound.config,
                sockets=self._bound.sockets,
                shutdown_trigger=self._until_drained,
            )
        finally:
            if self._listener is not None:
                await self._listener.stop(LAST_EVENTS_S)
            self._bound.release()
            await self.app.batches.close()
            await asyncio.to_thread(self._context.engine.stop, 0.0)
            await asyncio.to_thread(self.app.services.request_log.close, LAST_EVENTS_S)
            if self.app.services.profiler is not None:
                self.app.services.profiler.close()
        return 0 if len(self._signals) < 2 else 128 + self._signals[1]

    def on_signal(self, number: int) -> None:
        """The first begins to drain, the second ends everything."""
        self._signals.append(number)
        (self._asked if len(self._signals) == 1 else self._asked_again).set()

    async def _until_drained(self) -> None:
        """Serve until the first signal, then let calls end; at the latest after the timeout, or at a second signal."""
        self._announce(self._urls)
        await self._asked.wait()
        lifecycle = self.app.services.lifecycle
        lifecycle.draining = True
        if self._listener is not None:
            await self._listener.drain()
        await self.app.batches.stop()
        self._context.engine.drain()
        logger.info("shutting down: %d calls are running", lifecycle.running)
        drain = asyncio.create_task(self._drain())
        again = asyncio.create_task(self._asked_again.wait())
        await asyncio.wait({drain, again}, return_when=asyncio.FIRST_COMPLETED)
        for task in (drain, again):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await drain
        # Python's servers wait for their connections before Hypercorn's own timeout begins, so none may stay busy.
        lifecycle.cancel_calls()
        asyncio.get_running_loop().call_later(
            0.0 if again.done() and not again.cancelled() else LAST_EVENTS_S, self._bound.config.abort_connections
        )

    async def _drain(self) -> None:
        lifecycle = self.app.services.lifecycle
        if await lifecycle.wait_idle(self._context.settings.shutdown_timeout_s):
            return
        logger.warning("shutting down: ending %d calls that are still running", lifecycle.running)
        # Ends what is left with an error event each, which the streams still send.
        await asyncio.to_thread(self._context.engine.stop, 0.0)
        await lifecycle.wait_idle(LAST_EVENTS_S)


def _print_urls(urls: tuple[str, ...]) -> None:
    for url in urls:
        print(f"Serving on {url}", flush=True)
