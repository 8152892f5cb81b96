"""A server that does to the wire exactly what a script says, on a real socket in the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(text: str = "", finish: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
    """One event of a completions stream, as a chunk."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return chunk(b"data: " + orjson.dumps({"id": "x", "choices": [choice], "usage": usage}) + b"\n\n")


def ending(tokens: int, finish: str = "length") -> bytes:
    """Finish, usage and [DONE] of a stream, and the end of its body."""
    usage = {"prompt_tokens": 4, "completion_tokens": tokens}
    last = chunk(b"data: " + orjson.dumps({"choices": [], "usage": usage}) + b"\n\ndata: [DONE]\n\n")
    return event(finish=finish) + last + LAST_CHUNK


def answer(body: Any, status: int = 200) -> bytes:
    """A whole JSON response."""
    data = orjson.dumps(body)
    return b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        len(data),
        data,
    )


@dataclass
class Peer:
    """One connection, as a script sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int  # of the connection, from 0
    head: bytes = b""

    async def request(self) -> dict[str, Any]:
        """The body of the next request; raises IncompleteReadError when the client has left."""
        self.head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in self.head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        return orjson.loads(await self.reader.readexactly(length) or b"{}")

    def send(self, *pieces: bytes) -> float:
        """Write at once; the loop's time then."""
        self.writer.write(b"".join(pieces))
        return asyncio.get_running_loop().time()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class ScriptedServer:
    url: str
    peers: list[Peer] = field(default_factory=list)


@asynccontextmanager
async def scripted_server(script: Script) -> AsyncIterator[ScriptedServer]:
    """A server that follows the script on each connection and then closes it."""
    handle = ScriptedServer("")
    tasks: list[asyncio.Task[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        peer = Peer(reader, writer, len(handle.peers))
        handle.peers.append(peer)
        try:
            await script(peer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has left, or the test has
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    handle.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield handle
    finally:
        server.close()
        if tasks:
            await asyncio.wait(tasks, timeout=0.3)  # they see that the client has left
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
