"""What `andes-jax serve --http-workers N` does: the engine in this process, connections in N others."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypercorn.config import Sockets
from prometheus_client.multiprocess import mark_process_dead

from andes_jax.clock import WallClock
from andes_jax.commands.context import describe, front_end_context
from andes_jax.commands.failure import report
from andes_jax.commands.process import end_on_sigterm, log_to_stderr
from andes_jax.config import Config, share_metrics
from andes_jax.failure import UserError
from andes_jax.remote.host import EngineHost
from andes_jax.remote.listener import ListenSettings
from andes_jax.remote.service import EngineService
from server.addresses import BoundServer, adopt
from server.http_workers import HttpWorkers, end_with
from server.serve import serve

if TYPE_CHECKING:
    from andes_jax.build import BuiltEngine


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """All that a process is given to serve connections."""

    config: Config
    sockets: Sockets
    urls: tuple[str, ...]
    metrics: Path

    def run(self, number: int, link: Connection) -> None:
        """The whole life of a process, as a front end of the engine."""
        try:
            code = self._serve(number, link)
        except UserError as error:
            code = report(error, ())
        raise SystemExit(code)

    def _serve(self, number: int, link: Connection) -> int:
        config = self.config
        if number > 0:  # gRPC takes no sockets of ours, so one process has its port
            config = config.model_copy(update={"server": config.server.model_copy(update={"grpc_port": None})})
        log_to_stderr(config)
        with end_on_sigterm():
            end_with(link)
            context, words = front_end_context(config, lambda step: None)
        context = replace(context, settings=replace(context.settings, shared_metrics=self.metrics))
        bound = adopt(context.settings, self.sockets, self.urls)
        return serve(context, bound, announce=lambda urls: link.send((context.model_id, words, urls)))


def serve_by_workers(
    config: Config, bound: BoundServer, built: BuiltEngine | None, announce: Callable[[str, str, tuple[str, ...]], None]
) -> int:
    """Serve by `config.server.http_workers` processes until told to stop; the exit code.

    None as the engine is for one elsewhere, at `config.server.engine`. The engine is stopped here; the addresses are
    the caller's. Raises WorkerError.
    """
    chosen = config.server
    with TemporaryDirectory(prefix="andes-jax-") as name:  # of this user alone
        address = chosen.engine or f"unix:{name}/engine"
        metrics = Path(name, "metrics")
        metrics.mkdir()
        share_metrics(metrics)
        theirs = config.model_copy(update={"server": chosen.model_copy(update={"engine": address})})
        plan = WorkerPlan(theirs, bound.sockets, bound.urls, metrics)

        def told(words: tuple[str, str, tuple[str, ...]]) -> None:
            model_id, about, urls = words
            if built is not None:
                about = built.description
            announce(model_id, f"{about}; connections in {chosen.http_workers} processes", urls)

        async def run() -> int:
            on_death = partial(mark_process_dead, path=str(metrics))
            workers = HttpWorkers(chosen.http_workers, plan.run, chosen.shutdown_timeout, on_death)
            async with nullcontext() if built is None else _engine_at(address, config, built):
                return await workers.run(told)

        return asyncio.run(run())


@asynccontextmanager
async def _engine_at(address: str, config: Config, built: BuiltEngine) -> AsyncIterator[None]:
    """An engine that front ends find at an address as long as the block lasts; it is stopped at its end."""
    service = EngineService(built.engine, describe(config, built), WallClock(), built.compiles_after_ready)
    host = EngineHost(built.engine, service, ListenSettings(address))
    listening = asyncio.Event()
    running = asyncio.create_task(host.run(0.0, lambda url: listening.set()))
    heard = asyncio.create_task(listening.wait())
    await asyncio.wait({running, heard}, return_when=asyncio.FIRST_COMPLETED)
    heard.cancel()
    try:
        if not running.done():
            yield
    finally:
        host.on_signal(signal.SIGTERM)
        await running
