"""Connections to one server, kept alive and used again: little CPU per token, since the server may share the cores.

A reply's bytes go from the socket's callback through the parser to the receiver without a task being woken, and all
connections read into one buffer. With 50 streams of one token an event, that takes a quarter of the CPU time per token
that httpx takes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from andes_jax.failure import UsageError
from andes_jax.loadtest.http_response import Receiver, ResponseError, ResponseParser

CONNECT_TIMEOUT_S = 10.0
_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. `path` is what comes before /v1."""

    host: str
    port: int
    tls: bool = False
    path: str = ""

    @property
    def authority(self) -> str:
        """For the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str) -> Address:
    """The address of http://HOST:PORT, with or without /v1 at its end. Raises UsageError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--url {url!r} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise UsageError(f"--url {url!r} is no address; give one such as http://127.0.0.1:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    tls = parts.scheme == "https"
    return Address(parts.hostname, port or (443 if tls else 80), tls, path)


class _Connection(asyncio.BufferedProtocol):
    """One connection, with at most one exchange on it."""

    def __init__(self, now: Callable[[], float], buffer: memoryview, lost: Callable[[_Connection], None]) -> None:
        """A connection that reads by way of `buffer`, which others may use between two reads."""
        self._now = now
        self._buffer = buffer
        self._lost = lost
        self._parser: ResponseParser | None = None
        self._whole: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    async def exchange(self, request: bytes, receiver: Receiver) -> bool:
        """Send a request and wait for the end of its response; whether the connection can be used again."""
        assert self.transport is not None and self._parser is None
        parser = self._parser = ResponseParser(receiver)
        self._whole = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            await self._whole
        finally:
            self._parser = None
        return parser.reusable

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        at_s = self._now()
        parser = self._parser
        if parser is None:
            self.abort()  # nobody asked for anything
            return
        try:
            parser.feed(bytes(self._buffer[:nbytes]), at_s)
        except ResponseError as error:
            self._settle(error)
            self.abort()
            return
        if parser.done:
            self._settle(None)

    def eof_received(self) -> bool:
        return False  # closes the connection, which calls connection_lost

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(self)
        if self._parser is None:
            return
        try:
            self._parser.end()
        except ResponseError as failure:
            self._settle(failure)
        else:
            self._settle(None)

    def abort(self) -> None:
        """Close at once, so that the server stops its work."""
        if self.transport is not None:
            self.transport.abort()

    def _settle(self, error: Exception | None) -> None:
        if self._whole is None or self._whole.done():
            return
        if error is None:
            self._whole.set_result(None)
        else:
            self._whole.set_exception(error)


class Connections:
    """As many connections to one server as there are exchanges at once."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._tls = ssl.create_default_context() if address.tls else None
        self._idle: list[_Connection] = []
        self._buffer = memoryview(bytearray(_READ_BYTES))

    async def exchange(self, request: bytes, receiver: Receiver) -> None:
        """Send a whole request and pass its response to the receiver; cancelling closes the connection.

        Raises:
            OSError: there is no connection to be had.
            ResponseError: the response is broken, or ended early.
        """
        while True:
            used = bool(self._idle)
            connection = self._idle.pop() if used else await self._connect()
            try:
                reusable = await connection.exchange(request, receiver)
            except ResponseError as error:
                if used and error.silent:
                    continue  # the server ended it as idle while the request was under way; nobody has seen that
                raise
            except BaseException:
                connection.abort()
                raise
            if reusable and connection.transport is not None and not connection.transport.is_closing():
                self._idle.append(connection)
            else:
                connection.abort()
            return

    def close(self) -> None:
        """Close what is idle. Exchanges end with their tasks."""
        while self._idle:
            self._idle.pop().abort()

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop.time, self._buffer, self._forget),
                    self.address.host,
                    self.address.port,
                    ssl=self._tls,
                )
        except TimeoutError:
            raise OSError(f"no connection to {self.address.authority} in {CONNECT_TIMEOUT_S:.0f} s") from None
        return connection

    def _forget(self, connection: _Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
