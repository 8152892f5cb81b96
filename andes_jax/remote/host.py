"""A process that holds an engine and serves it to front ends until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress

from andes_jax.engine.contract import EngineContract
from andes_jax.remote.listener import Listener, ListenSettings
from andes_jax.remote.protocol import andes_pb2_grpc
from andes_jax.remote.service import SERVICE, EngineService

logger = logging.getLogger("andes_jax.remote")

LAST_EVENTS_S = 2.0  # how long the last events of ended requests may take to leave


class EngineHost:
    """One engine at work for front ends. To be made and used inside its event loop."""

    def __init__(self, engine: EngineContract, service: EngineService, settings: ListenSettings) -> None:
        self._engine = engine
        self._service = service
        self._listener = Listener(settings)
        andes_pb2_grpc.add_EngineServicer_to_server(service, self._listener.server)
        self._signals: list[int] = []
        self._asked = asyncio.Event()
        self._asked_again = asyncio.Event()

    def on_signal(self, number: int) -> None:
        """The first begins to drain, the second ends everything."""
        self._signals.append(number)
        (self._asked if len(self._signals) == 1 else self._asked_again).set()

    async def run(self, shutdown_timeout_s: float, announce: Callable[[str], None]) -> int:
        """Serve until told to stop, then let requests end, for so long; the exit code.

        `announce` is given the address as URL once front ends are served. The engine is stopped here. Raises
        ListenError.
        """
        try:
            announce(await self._listener.start([SERVICE]))
            await self._asked.wait()
            logger.info("shutting down: %d requests are open", self._service.open_requests)
            await self._listener.drain()
            self._engine.drain()
            self._service.tell_state()
            await self._wait_idle(shutdown_timeout_s)
        finally:
            await asyncio.to_thread(self._engine.stop, 0.0)  # ends what is left with an event each
            with suppress(TimeoutError):  # a front end that does not read does not hold us up
                async with asyncio.timeout(LAST_EVENTS_S):
                    await self._service.wait_idle()
            await self._listener.stop(0)
        return 0 if len(self._signals) < 2 else 128 + self._signals[1]

    async def _wait_idle(self, timeout_s: float) -> None:
        idle = asyncio.create_task(self._service.wait_idle())
        again = asyncio.create_task(self._asked_again.wait())
        await asyncio.wait({idle, again}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        again.cancel()


async def host_engine(
    engine: EngineContract,
    service_of: Callable[[], EngineService],
    settings: ListenSettings,
    shutdown_timeout_s: float,
    announce: Callable[[str], None],
) -> int:
    """Run an EngineHost that SIGTERM and SIGINT end; the exit code. `service_of` is called in the event loop."""
    host = EngineHost(engine, service_of(), settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.on_signal, number)
    return await host.run(shutdown_timeout_s, announce)
