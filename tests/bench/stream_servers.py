"""Servers of made-up streams, each a process of its own: andes-jax over an engine that costs little, and others.

Run by stream_throughput.py. The others need their package alone, and may run in a Python of their own: each sends the
events that andes-jax sends for one token, one in each pass of its loop.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

TEXT = "word "
BEFORE = (
    b'data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1700000000,'
    b'"model":"fake/bytes","service_tier":"default","system_fingerprint":"andes-jax","choices":[{"index":0,'
    b'"delta":{"content":'
)
AFTER = b'},"logprobs":null,"finish_reason":null}]}\n\n'


async def others(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """ASGI application of the others: ?tokens=N events."""
    import orjson

    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    tokens = int(parse_qs(scope["query_string"].decode())["tokens"][0])
    head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for _ in range(tokens):
        data = BEFORE + orjson.dumps(TEXT) + AFTER
        await send({"type": "http.response.body", "body": data, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


def serve_uvicorn(port: int, loop: str) -> None:
    import uvicorn

    uvicorn.run(others, port=port, loop=loop, http="httptools", log_level="error", lifespan="off")


def serve_hypercorn(port: int, loop: str) -> None:
    import hypercorn.asyncio
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.h2_max_concurrent_streams = 300
    if loop == "uvloop":
        import uvloop

        uvloop.install()
    asyncio.run(hypercorn.asyncio.serve(others, config))


def serve_granian(port: int, loop: str) -> None:
    from granian import Granian
    from granian.constants import Interfaces, Loops
    from granian.http import HTTP2Settings

    settings = HTTP2Settings(max_concurrent_streams=300)
    Granian(
        f"{Path(__file__).stem}:others",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops(loop),
        http2_settings=settings,
        log_enabled=False,
        websockets=False,
    ).serve()


def serve_andes(port: int, loop: str, *, adaptive: bool) -> None:
    """With adaptive chunks the engine draws a token a pass; without, once all streams have sent what they had."""
    from andes_jax.events import TokenEvent, Usage
    from andes_jax.request import FinishReason
    from server.context import ServerContext, ServerSettings
    from server.serve import Serving, bind
    from tests.server.fake_engine import FakeEngine, FakeLimits
    from tests.server.parts import COMPILED, MODEL, ByteTokenizer

    class Engine(FakeEngine):
        """Draws in the loop's own thread, so that nothing but the server's work is measured beside it."""

        front_end: Any

        def start(self) -> None:
            self.limits = FakeLimits(max_model_len=10**9, pool_tokens=10**9)
            self.open: dict[str, tuple[Any, Any, int]] = {}
            self.drawing_s = 0.0

        def submit_all(self, requests: Any, sink: Any) -> None:
            if not self.open:
                asyncio.get_running_loop().call_later(0.5, self.draw)  # once all have come
            self.open.update((each.id, (each, sink, 0)) for each in requests)

        def cancel(self, request_id: str) -> None:
            self.open.pop(request_id, None)

        def draw(self) -> None:
            """A token of each reply."""
            loop = asyncio.get_running_loop()
            calls = self.front_end._calls
            if not adaptive and calls and next(reversed(calls.values())).held.since_s is not None:
                loop.call_soon(self.draw)
                return
            begun_s = time.thread_time()
            now_s, events, sink = time.monotonic(), [], None
            for request, sink, count in list(self.open.values()):  # noqa: B007
                done = count + 1 == request.sampling.max_tokens
                usage = Usage(1, count + 1) if done else None
                finish = FinishReason.LENGTH if done else None
                events.append(TokenEvent(request.id, now_s, TEXT, (119,), finish=finish, usage=usage))
                self.open[request.id] = (request, sink, count + 1)
                if done:
                    del self.open[request.id]
            if sink is not None:
                sink(events)
            self.drawing_s += time.thread_time() - begun_s
            if self.open:
                loop.call_soon(self.draw)
            else:
                print(f"drawing {self.drawing_s:.4f}", flush=True)
                self.drawing_s = 0.0

    async def main() -> None:
        tokenizer = ByteTokenizer()
        engine = Engine(tokenizer.table)
        engine.start()
        settings = ServerSettings(port=port, adaptive_chunks=adaptive)
        context = ServerContext(engine, tokenizer, COMPILED, MODEL, settings)
        serving = Serving(context, bind(settings), lambda urls: None)
        engine.front_end = serving.app.services.front_end
        await serving.run()

    if loop == "uvloop":
        import uvloop

        uvloop.install()
    asyncio.run(main())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=["andes", "andes-plain", "hypercorn", "uvicorn", "granian"])
    parser.add_argument("port", type=int)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    chosen = parser.parse_args()
    if chosen.server.startswith("andes"):
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        serve_andes(chosen.port, chosen.loop, adaptive=chosen.server == "andes")
    else:
        serve = {"hypercorn": serve_hypercorn, "uvicorn": serve_uvicorn, "granian": serve_granian}[chosen.server]
        serve(chosen.port, chosen.loop)


if __name__ == "__main__":
    main()
