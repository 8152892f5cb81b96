"""Servers whose streams all get a token at one tick, each a process tree of its own. Run by stream_paced.py.

andes-jax is served by the process of a made-up engine, or with workers by processes beside it. Every token's text is
the time at which it was due, so that whoever reads it knows how late it is.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.stream_servers import AFTER, BEFORE

GAP_S = 0.02


def words_at(due_s: float) -> str:
    """The text of a token that is due then."""
    return f"{due_s:.6f} "


async def others(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """ASGI application of the others: ?tokens=N events, each at a tick."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    tokens = int(parse_qs(scope["query_string"].decode())["tokens"][0])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    due_s = (time.monotonic() // GAP_S + 1) * GAP_S
    for _ in range(tokens):
        await asyncio.sleep(due_s - time.monotonic())
        data = BEFORE + b'"' + words_at(due_s).encode() + b'"' + AFTER
        await send({"type": "http.response.body", "body": data, "more_body": True})
        due_s += GAP_S
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


def mk_engine() -> Any:
    """An engine of which a thread draws a token of each reply at each tick, as far as it is let."""
    from andes_jax.events import TokenEvent, Usage
    from andes_jax.request import FinishReason
    from tests.server.fake_engine import FakeEngine
    from tests.server.parts import ByteTokenizer

    class Engine(FakeEngine):
        late_s: list[float]

        def _run(self) -> None:
            self.late_s = []
            self.drawn: dict[str, int] = {}
            while not self._closing:
                due_s = (time.monotonic() // GAP_S + 1) * GAP_S
                time.sleep(due_s - time.monotonic())
                with self._lock:
                    if self._live:
                        self.late_s.append(time.monotonic() - due_s)
                        self._tick(due_s)

        def _tick(self, due_s: float) -> None:
            sinks: dict[int, tuple[Any, list[TokenEvent]]] = {}
            for name, live in list(self._live.items()):
                count = self.drawn[name] = self.drawn.get(name, 0) + 1
                done = live.cancelled or count == live.request.sampling.max_tokens
                finish, usage = (FinishReason.LENGTH, Usage(1, count)) if done else (None, None)
                event = TokenEvent(name, due_s, words_at(due_s), (119,), finish=finish, usage=usage)
                sinks.setdefault(id(live.sink), (live.sink, []))[1].append(event)
                if done:
                    del self._live[name]
            for sink, events in sinks.values():
                sink(events)

    return Engine(ByteTokenizer().table)


def report_lateness(engine: Any) -> None:
    """Say how late the engine's thread came to its ticks since the last time, for each line that comes in."""

    def answer() -> None:
        for _ in sys.stdin:
            late_ms = sorted(each * 1e3 for each in engine.late_s)
            engine.late_s.clear()
            print(*(f"{late_ms[int(len(late_ms) * share)]:.3f}" for share in (0.5, 0.99)), flush=True)

    threading.Thread(target=answer, daemon=True).start()


def serve_andes(port: int) -> None:
    """Engine and connections in this process."""
    from server.serve import serve
    from tests.server.parts import mk_context

    engine = mk_engine()
    report_lateness(engine)
    serve(replace(mk_context(port=port), engine=engine), announce=lambda urls: None)


def worker(address: str, sockets: Any, number: int, link: Connection) -> None:
    """A process that serves connections for an engine at an address."""
    from andes_jax.remote.client import RemoteEngine
    from andes_jax.remote.description import Description
    from andes_jax.remote.link import LinkSettings
    from server.addresses import adopt
    from server.http_workers import end_with
    from server.serve import serve
    from tests.server.parts import mk_context

    end_with(link)
    remote = RemoteEngine(LinkSettings(address), Description("", "fake", "fake"))
    remote.start()
    remote.wait_connected()
    context = replace(mk_context(), engine=remote, clock=remote.clock)
    serve(context, adopt(context.settings, sockets, ()), announce=link.send)


def serve_by_workers(port: int, count: int, folder: str) -> None:
    """The engine in this process, connections in others."""
    from andes_jax.clock import WallClock
    from andes_jax.remote.description import Description
    from andes_jax.remote.listener import Listener, ListenSettings
    from andes_jax.remote.protocol import andes_pb2_grpc
    from andes_jax.remote.service import EngineService
    from server.addresses import bind
    from server.context import ServerSettings
    from server.http_workers import HttpWorkers

    engine = mk_engine()
    report_lateness(engine)
    bound = bind(ServerSettings(port=port))
    address = f"unix:{folder}/engine"

    async def main() -> None:
        listener = Listener(ListenSettings(address))
        service = EngineService(engine, Description("", "fake", "fake"), WallClock())
        andes_pb2_grpc.add_EngineServicer_to_server(service, listener.server)
        await listener.start([])
        await HttpWorkers(count, partial(worker, address, bound.sockets), 1.0).run(lambda said: None)

    asyncio.run(main())


def serve_uvicorn(port: int) -> None:
    import uvicorn

    uvicorn.run(others, port=port, loop="uvloop", http="httptools", log_level="error", lifespan="off")


def serve_hypercorn(port: int) -> None:
    import hypercorn.asyncio
    import uvloop
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.h2_max_concurrent_streams = 300
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(hypercorn.asyncio.serve(others, config))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=["andes", "workers", "uvicorn", "hypercorn"])
    parser.add_argument("port", type=int)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--folder", default=".")
    chosen = parser.parse_args()
    match chosen.server:
        case "andes":
            serve_andes(chosen.port)
        case "workers":
            serve_by_workers(chosen.port, chosen.workers, chosen.folder)
        case "uvicorn":
            serve_uvicorn(chosen.port)
        case _:
            serve_hypercorn(chosen.port)


if __name__ == "__main__":
    main()
