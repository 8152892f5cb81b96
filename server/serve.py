"""Binds the addresses, serves until told to stop, and drains."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from hypercorn.asyncio.run import worker_serve
from hypercorn.config import Sockets
from hypercorn.utils import wrap_app

from server.app import create_app
from server.context import ServerContext, ServerSettings
from server.hypercorn_repairs import RepairedConfig, install

logger = logging.getLogger("andes_jax.server")

LAST_EVENTS_S = 2.0  # how long the last events of ended replies may take to leave
UNLIMITED = 2**31 - 1


class BindError(Exception):
    """An address that cannot be listened on: one line with the address and the reason."""


@dataclass(frozen=True)
class BoundServer:
    """Addresses that are taken but not yet listened on."""

    config: RepairedConfig
    sockets: Sockets
    urls: tuple[str, ...]


def bind(settings: ServerSettings) -> BoundServer:
    """Take the addresses, so that a long start does not end with a taken port. Raises BindError.

    Also raises UnsupportedHypercornError, before anything is taken.
    """
    install()
    config = _config(settings)
    try:
        sockets = config.create_sockets()
    except OSError as error:
        where = ", ".join([*config.bind, *config.insecure_bind])
        raise BindError(f"cannot listen on {where}: {error.strerror or error}") from error
    if config.ssl_enabled:
        try:
            config.create_ssl_context()
        except OSError as error:  # ssl.SSLError too
            raise BindError(
                f"cannot use the certificate {settings.certfile} with the key {settings.keyfile}: {error}"
            ) from error
    urls = [_url("https", sock.getsockname()) for sock in sockets.secure_sockets]
    urls += [_url("http", sock.getsockname()) for sock in sockets.insecure_sockets]
    return BoundServer(config, sockets, tuple(urls))


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
    return asyncio.run(_serve_until_signal(context, bound, announce or _print_urls))


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
        self.app = create_app(context)

    async def run(self) -> int:
        """Serve until told to stop; the exit code."""
        try:
            await worker_serve(
                wrap_app(cast(Any, self.app), self._bound.config.wsgi_max_body_size, "asgi"),
                self._bound.config,
                sockets=self._bound.sockets,
                shutdown_trigger=self._until_drained,
            )
        finally:
            await asyncio.to_thread(self._context.engine.stop, 0.0)
        return 0 if len(self._signals) < 2 else 128 + self._signals[1]

    def on_signal(self, number: int) -> None:
        """The first begins to drain, the second ends everything."""
        self._signals.append(number)
        (self._asked if len(self._signals) == 1 else self._asked_again).set()

    async def _until_drained(self) -> None:
        """Serve until the first signal, then let calls end; at the latest after the timeout, or at a second signal."""
        self._announce(self._bound.urls)
        await self._asked.wait()
        lifecycle = self.app.services.lifecycle
        lifecycle.draining = True
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


def _config(settings: ServerSettings) -> RepairedConfig:
    config = RepairedConfig()
    config.bind = [f"{_bracketed(settings.host)}:{settings.port}"]
    if settings.certfile is not None and settings.keyfile is not None:
        config.certfile, config.keyfile = str(settings.certfile), str(settings.keyfile)
    extra = config.insecure_bind = []
    if settings.insecure_port is not None:
        extra.append(f"{_bracketed(settings.host)}:{settings.insecure_port}")
    if settings.unix_socket is not None:
        extra.append(f"unix:{settings.unix_socket}")
    if not config.ssl_enabled:
        config.bind = [*config.bind, *extra]
        config.insecure_bind = []
    config.stall_timeout_s = settings.send_stall_s
    config.keep_alive_timeout = settings.keep_alive_s
    config.graceful_timeout = LAST_EVENTS_S + 1
    config.keep_alive_max_requests = UNLIMITED  # Hypercorn would cut the streams in flight
    config.h2_max_concurrent_streams = 256
    config.h2_max_header_list_size = 16 * 1024
    config.h11_max_incomplete_size = 16 * 1024
    config.ssl_handshake_timeout = 10
    config.backlog = 1024
    config.websocket_max_message_size = 64 * 1024
    config.accesslog = None
    config.loglevel = "WARNING"
    config.include_server_header = False
    return config


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _url(scheme: str, address: tuple[str, int] | str) -> str:
    if isinstance(address, str):
        return f"unix:{address}"
    return f"{scheme}://{_bracketed(address[0])}:{address[1]}"


def _print_urls(urls: tuple[str, ...]) -> None:
    for url in urls:
        print(f"Serving on {url} (HTTP/1.1 and HTTP/2)", flush=True)
