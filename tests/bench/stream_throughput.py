"""Streams at full speed: tokens a second and CPU time per token of andes-jax and of other servers, in one run.

python -m tests.bench.stream_throughput [--peer-python PYTHON] [--streams 1,32,256] [--loop asyncio,uvloop]

`andes` is as it ships. `andes-plain` sends every token by itself, as the others do. The CPU time is the server
process's, of andes-jax without what its made-up engine used; `events` is how many tokens left in one body message.
Servers without their package, or without the protocol, are left out. Rounds go around all servers, and the least CPU
time of them counts: what disturbs a round only ever adds to it. Both begin with the first text.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hpack import Encoder

from tests.bench.machine import process_tree

SERVERS = Path(__file__).with_name("stream_servers.py")
HTTP1_ONLY = {"uvicorn"}
PACKAGES = {"uvicorn": "uvicorn", "granian": "granian", "hypercorn": "hypercorn"}
BODY = {"model": "fake/bytes", "stream": True, "messages": [{"role": "user", "content": "x"}]}
END_STREAM, DATA, HEADERS, RESET = 0x1, 0x0, 0x1, 0x3
WIDEST = 2**31 - 1
LONGEST_S = 120.0


@dataclass
class Round:
    """What one round gave."""

    seconds: float
    cpu_s: float
    messages: int  # that carried text


class Http1:
    """One stream on a connection."""

    def __init__(self, port: int, tokens: int, reader: dict[str, float] | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        body = json.dumps(BODY | {"max_tokens": tokens, "andes": reader or {}}).encode()
        head = f"POST /v1/chat/completions?tokens={tokens} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        self.socket.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self._last = b""
        self.left = 1
        self.messages = 0

    def take(self, data: bytes) -> None:
        self.messages += data.count(b"\r\ndata: ")
        self._last = (self._last + data)[-5:]
        if self._last == b"0\r\n\r\n":
            self.left = 0


class Http2:
    """Several streams on one connection, with windows so wide that none has to be opened again."""

    def __init__(self, port: int, tokens: int, streams: int, reader: dict[str, float] | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.left = streams
        self.messages = 0
        self._buffer = bytearray()
        encoder = Encoder()
        sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        sent.append(_frame(4, 0, 0, b"\x00\x04" + WIDEST.to_bytes(4, "big")))
        sent.append(_frame(8, 0, 0, (WIDEST - 65535).to_bytes(4, "big")))
        body = json.dumps(BODY | {"max_tokens": tokens, "andes": reader or {}}).encode()
        for number in range(streams):
            fields = [
                (":method", "POST"),
                (":path", f"/v1/chat/completions?tokens={tokens}"),
                (":scheme", "http"),
                (":authority", "x"),
                ("content-type", "application/json"),
            ]
            sent.append(_frame(HEADERS, 0x4, 2 * number + 1, encoder.encode(fields)))
            sent.append(_frame(DATA, END_STREAM, 2 * number + 1, body))
        self.socket.sendall(b"".join(sent))

    def take(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= 9:
            size = int.from_bytes(buffer[at : at + 3], "big")
            if len(buffer) - at < 9 + size:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            if kind == DATA and size:
                self.messages += 1
            if kind == RESET or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self.left -= 1
            at += 9 + size
        del buffer[:at]


def _frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + payload


def cpu_s(pid: int) -> float:
    """CPU seconds that a server and its workers have used."""
    return sum(process.cpu_s for process in process_tree([pid]).values())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server as a process, on a CPU of its own where there are two."""

    def __init__(self, name: str, loop: str, python: str) -> None:
        self.name, self.port = name, free_port()
        command = [python, str(SERVERS), name, str(self.port), "--loop", loop]
        self._process = subprocess.Popen(command, cwd=SERVERS.parent, stdout=subprocess.PIPE, start_new_session=True)
        if (os.cpu_count() or 1) > 1:
            os.sched_setaffinity(self._process.pid, {0})
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError(f"{name} does not start") from None
                time.sleep(0.05)

    def round(self, protocol: str, streams: int, tokens: int) -> Round:
        """Read so many streams of so many tokens each to their end."""
        before_s, begun_s, begun = 0.0, time.monotonic(), False
        if protocol == "h2":
            clients: list[Http1 | Http2] = [Http2(self.port, tokens, streams)]
        else:
            clients = [Http1(self.port, tokens) for _ in range(streams)]
        with selectors.DefaultSelector() as selector:
            for client in clients:
                client.socket.setblocking(False)
                selector.register(client.socket, selectors.EVENT_READ, client)
            while any(client.left for client in clients):
                if time.monotonic() - begun_s > LONGEST_S:
                    raise RuntimeError(f"{self.name} does not end its streams")
                for key, _ in selector.select(1.0):
                    data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                    if not data:
                        raise RuntimeError(f"{self.name} closed a connection")
                    key.data.take(data)
                    if not begun and key.data.messages:  # taking the calls is another matter
                        before_s, begun_s, begun = cpu_s(self._process.pid), time.monotonic(), True
        seconds, used_s = time.monotonic() - begun_s, cpu_s(self._process.pid) - before_s
        for client in clients:
            client.socket.close()
        if self.name.startswith("andes"):
            assert self._process.stdout is not None
            used_s -= float(self._process.stdout.readline().split()[1])
        return Round(seconds, used_s, sum(client.messages for client in clients))

    def end(self) -> None:
        self._process.kill()
        for pid in process_tree([self._process.pid]):
            if pid != self._process.pid:
                os.kill(pid, 9)  # workers of ours
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def available(name: str, python: str) -> bool:
    package = PACKAGES.get(name)
    if package is None or (python == sys.executable and importlib.util.find_spec(package)):
        return True
    return subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has the other servers' packages")
    parser.add_argument("--servers", default="andes,andes-plain,hypercorn,uvicorn,granian")
    parser.add_argument("--streams", default="1,32,256")
    parser.add_argument("--protocols", default="h2,h1")
    parser.add_argument("--loop", default="asyncio")
    parser.add_argument("--tokens", type=int, default=256_000, help="of all streams of a round together")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    print("server       loop     http streams   ktok/s  us/token  events  us of each round")
    for streams in map(int, chosen.streams.split(",")):
        for protocol in chosen.protocols.split(","):
            rounds: dict[tuple[str, str], list[Round]] = {}
            for _ in range(chosen.rounds):
                for loop in chosen.loop.split(","):
                    for name in chosen.servers.split(","):
                        python = sys.executable if name.startswith("andes") else chosen.peer_python
                        if (protocol == "h2" and name in HTTP1_ONLY) or not available(name, python):
                            continue
                        server = Server(name, loop, python)
                        try:
                            server.round(protocol, streams, 100)  # warm
                            done = server.round(protocol, streams, chosen.tokens // streams)
                            rounds.setdefault((name, loop), []).append(done)
                        finally:
                            server.end()
            show(rounds, protocol, streams, chosen.tokens // streams * streams)


def show(rounds: dict[tuple[str, str], list[Round]], protocol: str, streams: int, tokens: int) -> None:
    for (name, loop), done in rounds.items():
        each = [one.cpu_s / tokens * 1e6 for one in done]
        rate = max(tokens / one.seconds for one in done) / 1e3
        events = tokens / max(one.messages for one in done)
        spread = " ".join(f"{value:.1f}" for value in each)
        print(
            f"{name:12} {loop:8} {protocol:4} {streams:7} {rate:8.1f} {min(each):9.2f} {events:7.1f}  {spread}",
            flush=True,
        )


if __name__ == "__main__":
    main()
