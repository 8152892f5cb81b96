"""An engine behind gRPC in a thread of the test, and front ends of it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from andes_jax.clock import Clock, WallClock
from andes_jax.remote.client import RemoteEngine
from andes_jax.remote.description import Description
from andes_jax.remote.link import LinkSettings
from andes_jax.remote.listener import Listener, ListenSettings
from andes_jax.remote.protocol import andes_pb2_grpc
from andes_jax.remote.service import SERVICE, EngineService
from andes_jax.request import QoeTarget, Request, SamplingParams, Tier
from tests.server.fake_engine import FakeEngine
from tests.server.parts import ByteTokenizer

DESCRIPTION = Description(
    "1.0", "fake/bytes", "digest", "a fake", "andes-jax-fake", {Tier.REALTIME: QoeTarget(1.0, 5.0)}
)


def free_address() -> str:
    """A port of this machine that nobody has now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def fake_engine(**keywords: Any) -> FakeEngine:
    return FakeEngine(ByteTokenizer().table, **keywords)


def request(name: str, max_tokens: int = 9, **sampling: Any) -> Request:
    return Request(name, (1, 2, 3), SamplingParams(max_tokens=max_tokens, **sampling))


class ServedEngine:
    """An engine that front ends can reach."""

    def __init__(
        self,
        engine: Any,
        address: str,
        description: Description = DESCRIPTION,
        clock: Clock | None = None,
        **listen: Any,
    ) -> None:
        self.engine = engine
        self.address = address
        self._parts = (description, clock or WallClock(), ListenSettings(address, **listen))
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._started.wait(10), "the engine's server does not start"

    async def _main(self) -> None:
        description, clock, settings = self._parts
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self.service = EngineService(self.engine, description, clock)
        self.listener = Listener(settings)
        andes_pb2_grpc.add_EngineServicer_to_server(self.service, self.listener.server)
        self.url = await self.listener.start([SERVICE])
        self._started.set()
        await self._asked.wait()
        await self.listener.stop(0)

    def do(self, what: Any) -> Any:
        """Run something in the server's loop."""

        async def run() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(5)

    def end(self) -> None:
        """As if the process were gone: connections break."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._asked.set)
            self._thread.join(10)
            assert not self._thread.is_alive()


@contextmanager
def served(engine: Any = None, address: str | None = None, **keywords: Any) -> Iterator[ServedEngine]:
    """A fake engine, or another, for the length of a block."""
    server = ServedEngine(engine or fake_engine(), address or free_address(), **keywords)
    try:
        yield server
    finally:
        server.end()
        server.engine.stop(0)


@contextmanager
def front_end(
    address: str, expected: Description = DESCRIPTION, *, connected: bool = True, **link: Any
) -> Iterator[RemoteEngine]:
    """A front end's engine for the length of a block; connected when the block begins, unless told otherwise."""
    remote = RemoteEngine(LinkSettings(address, **link), expected)
    remote.start()
    try:
        if connected:
            remote.wait_connected()
        yield remote
    finally:
        remote.stop(0)
