"""How late paced streams are: from an engine's tick to the client, all streams with a token at every tick.

python -m tests.bench.stream_paced [--peer-python PYTHON] [--streams 256] [--servers andes,workers:1,workers:2,...]

50 tokens a second each; the peers make their ticks themselves, in their own loops. `engine` is how late andes-jax's
engine thread came to its tick, which the interpreter's lock and the machine decide. CPU is that of all the server's
processes. Rounds go around all servers; the middle one by its P99 counts.
"""

from __future__ import annotations

import argparse
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.machine import process_tree
from tests.bench.stream_throughput import HTTP1_ONLY, Http1, Http2, available, cpu_s, free_port

SERVERS = Path(__file__).with_name("stream_ticks.py")
DUE = re.compile(rb'"(?:content|text)":"(\d+\.\d+) ')
READER = {"expected_tokens_per_s": 60.0}  # who waits for every token, so that none is held back for others
SETTLE_S = 1.0  # of each stream's beginning, which is another matter


@dataclass
class Round:
    """What one round gave, in ms."""

    late: list[float]  # of every token, ascending
    cpu: float  # share of one core
    engine: str

    def at(self, share: float) -> float:
        return self.late[int(len(self.late) * share)]


class Server:
    """A server as a tree of processes."""

    def __init__(self, name: str, python: str, folder: str) -> None:
        self.kind, _, workers = name.partition(":")
        self.port = free_port()
        command = [python, str(SERVERS), self.kind, str(self.port), "--workers", workers or "0", "--folder", folder]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, bufsize=1, start_new_session=True, cwd=SERVERS.parents[2]
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    probe.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                    if self.kind in ("uvicorn", "hypercorn") or probe.recv(1):
                        return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError(f"{name} does not start") from None
                time.sleep(0.1)

    def lateness(self) -> str:
        """P50 and P99 of the engine's own, since the last time."""
        if self.kind in ("uvicorn", "hypercorn"):
            return "-"
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        return self.process.stdout.readline().strip().replace(" ", "/")

    def end(self) -> None:
        for pid in process_tree([self.process.pid]):
            subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
        self.process.wait()


def measure(server: Server, protocol: str, streams: int, tokens: int) -> Round:
    """Read so many streams of so many tokens each; how late each token was."""
    if protocol == "h2":
        clients: list[Http1 | Http2] = [Http2(server.port, tokens, streams, READER)]
    else:
        clients = [Http1(server.port, tokens, READER) for _ in range(streams)]
    late: list[float] = []
    with selectors.DefaultSelector() as selector:
        for client in clients:
            client.socket.setblocking(False)
            selector.register(client.socket, selectors.EVENT_READ, client)
        begun_s, used_s = time.monotonic() + SETTLE_S, None
        while any(client.left for client in clients):
            for key, _ in selector.select(1.0):
                data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                if not data:
                    raise RuntimeError("a connection was closed")
                now_s = time.monotonic()
                if now_s > begun_s:
                    used_s = cpu_s(server.process.pid) if used_s is None else used_s
                    late += [now_s - float(due) for due in DUE.findall(data)]
                key.data.take(data)
    seconds, spent_s = time.monotonic() - begun_s, cpu_s(server.process.pid) - (used_s or 0.0)
    for client in clients:
        client.socket.close()
    return Round(sorted(each * 1e3 for each in late), spent_s / seconds, server.lateness())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has the other servers' packages")
    parser.add_argument("--servers", default="andes,workers:1,workers:2,hypercorn,uvicorn")
    parser.add_argument("--streams", default="256")
    parser.add_argument("--protocols", default="h2,h1")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    print("server       http streams   p50 ms   p99 ms   max ms   cpu  engine p50/p99 ms  p99 of each round")
    for streams in map(int, chosen.streams.split(",")):
        for protocol in chosen.protocols.split(","):
            rounds: dict[str, list[Round]] = {}
            for _ in range(chosen.rounds):
                for name in chosen.servers.split(","):
                    python = chosen.peer_python if name in ("uvicorn", "hypercorn") else sys.executable
                    if (protocol == "h2" and name in HTTP1_ONLY) or not available(name, python):
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        server = Server(name, python, folder)
                        try:
                            done = measure(server, protocol, streams, int(chosen.seconds * 50))
                        finally:
                            server.end()
                    rounds.setdefault(name, []).append(done)
            for name, done_all in rounds.items():
                show(name, protocol, streams, done_all)


def show(name: str, protocol: str, streams: int, rounds: list[Round]) -> None:
    rounds.sort(key=lambda each: each.at(0.99))
    middle = rounds[len(rounds) // 2]
    each = " ".join(f"{one.at(0.99):.1f}" for one in rounds)
    print(
        f"{name:12} {protocol:4} {streams:7} {middle.at(0.5):8.2f} {middle.at(0.99):8.2f} {middle.late[-1]:8.2f} "
        f"{middle.cpu:5.2f}  {middle.engine:17}  {each}",
        flush=True,
    )


if __name__ == "__main__":
    main()
