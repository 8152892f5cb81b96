"""Processes that serve connections side by side, from sockets that this one holds: started, replaced, told to drain."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from andes_jax.failure import UserError

logger = logging.getLogger("andes_jax.server")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0  # before a process that did not last is replaced; doubled each time
LASTED_S = 30.0  # a process that has served for so long did last
END_S = 10.0  # how long a process may take to end after its calls have

WorkerMain = Callable[[int, Connection], None]  # a worker's whole life; runs in its process, so it has to be picklable


class WorkerError(UserError):
    """A process that should serve connections cannot: it has said why on stderr."""


@dataclass
class _Worker:
    process: BaseProcess
    link: Connection  # ends with the process, as the other end does with ours


class HttpWorkers:
    """A number of processes at work. To be made and used inside one event loop, on the main thread."""

    def __init__(
        self, count: int, main: WorkerMain, drain_s: float, on_death: Callable[[int], None] = lambda pid: None
    ) -> None:
        """After the first signal calls may take `drain_s` to end; `on_death` is told the id of each ended process."""
        self._main = main
        self._drain_s = drain_s
        self._on_death = on_death
        self._alive: dict[int, _Worker] = {}  # by number
        self._began: list[asyncio.Future[Any]] = [asyncio.get_running_loop().create_future() for _ in range(count)]
        self._signals: list[int] = []
        self._asked = asyncio.Event()  # to stop

    async def run(self, announce: Callable[[Any], None]) -> int:
        """Serve until told to stop by SIGTERM or SIGINT, then until every call has ended; the exit code.

        0 after an orderly end, 128 + the signal's number after a second signal. Once all take connections, `announce`
        is given what the first of them says of itself. Raises WorkerError when one of them cannot begin.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.on_signal, number)
        keepers: list[asyncio.Future[Any]] = [
            asyncio.create_task(self._keep(number)) for number in range(len(self._began))
        ]
        ready = asyncio.gather(*self._began)
        try:
            await asyncio.wait([ready, *keepers], return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                announce(ready.result()[0])
            await asyncio.gather(*keepers)
        finally:
            ready.cancel()
            for keeper in keepers:
                keeper.cancel()
            for worker in self._alive.values():
                worker.process.kill()
                await asyncio.to_thread(worker.process.join)
        return 0 if len(self._signals) < 2 else 128 + self._signals[1]

    def on_signal(self, number: int) -> None:
        """The first begins to drain, the second ends everything."""
        self._signals.append(number)
        self._asked.set()
        for worker in self._alive.values():
            worker.process.terminate()
        if len(self._signals) == 1:
            asyncio.get_running_loop().call_later(self._drain_s + END_S, self._kill)

    def _kill(self) -> None:
        for worker in self._alive.values():
            logger.warning("process %s does not end", worker.process.pid)
            worker.process.kill()

    async def _keep(self, number: int) -> None:
        """Have a process with this number until told to stop. Raises WorkerError when the first one cannot begin."""
        pause_s = FIRST_PAUSE_S
        while not self._asked.is_set():
            lasted_s, end = await self._live(number)
            if self._asked.is_set():
                return
            if not self._began[number].done():
                raise WorkerError(f"a process that should serve connections has ended with {end}")
            logger.warning("a process that served connections has ended with %s: another follows", end)
            pause_s = FIRST_PAUSE_S if lasted_s > LASTED_S else min(2 * pause_s, LONGEST_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._asked.wait()

    async def _live(self, number: int) -> tuple[float, str]:
        """One process from its start to its end: how long it has served, and what it has ended with."""
        loop = asyncio.get_running_loop()
        worker = self._alive[number] = _start(self._main, number)
        words = await _received(worker.link)
        since_s = loop.time()
        if words is not None:
            if not self._began[number].done():
                self._began[number].set_result(words)
            await _received(worker.link)  # it says no more: this is its end
        lasted_s = loop.time() - since_s
        await asyncio.to_thread(worker.process.join)
        del self._alive[number]
        worker.link.close()
        code = worker.process.exitcode or 0
        self._on_death(worker.process.pid or 0)
        return lasted_s, f"signal {-code}" if code < 0 else f"exit code {code}"


def _start(main: WorkerMain, number: int) -> _Worker:
    """A new process. Ctrl-C in the terminal reaches us alone: we say when it has to end."""
    context = multiprocessing.get_context("spawn")  # a fork would share the locks of threads that it does not have
    ours, theirs = context.Pipe()
    process = context.Process(target=main, args=(number, theirs), name=f"http-worker-{number}")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        theirs.close()
    return _Worker(process, ours)


async def _received(link: Connection) -> Any:
    """What the other end says next; None once it is gone."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(link.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(link.fileno())
    try:
        return link.recv()
    except (EOFError, OSError):
        return None


def end_with(link: Connection) -> None:
    """In a worker: drain, as on SIGTERM, once the process that has started it is gone."""

    def watch() -> None:
        try:
            link.recv()
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
