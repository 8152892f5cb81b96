"""Three hundred calls whose clients leave at random moments: nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import h2.events
import pytest

from tests.end_to_end.replies import CHAT, COMPLETIONS, assert_golden
from tests.end_to_end.server_process import assert_nothing_held, wait_for
from tests.server.raw_h2 import RawH2

pytestmark = pytest.mark.timeout(280)
CALLS = 300
READERS = 12  # at the same time, on eight slots: some leave while they wait for one
PER_CONNECTION = 25  # resets of one HTTP/2 connection, fewer than make it unwelcome


@dataclass(frozen=True)
class Dropped:
    """A call and the moment its client leaves."""

    path: str
    body: dict[str, Any]
    wait_s: float  # after the request was sent
    events: int  # to be read before that
    abort: bool  # leave with a TCP reset, or in the middle of the request


def dropped(seed: int) -> Iterator[Dropped]:
    """Short and long prompts, which take several steps; streamed and not; one choice or two."""
    choose = random.Random(seed)
    for _ in range(CALLS):
        if choose.random() < 0.1:  # its own tokens, or the prefix cache would compute nothing
            ids = [choose.randrange(1000, 40000) for _ in range(choose.randrange(260, 330))]
            path, body = COMPLETIONS, {"prompt": ids}
        else:
            path, body = CHAT, {"messages": [{"role": "user", "content": f"Count from {choose.random()}."}]}
        body |= {"stream": choose.random() < 0.85, "n": choose.choice((1, 1, 1, 2)), "max_tokens": 200, "seed": 1}
        body |= {"ignore_eos": True, "service_tier": choose.choice(("priority", "default", "flex"))}
        events = choose.choice((0, 0, 0, 0, 1, 2)) if body["stream"] else 0
        yield Dropped(path, body, choose.choice((0.0, 0.01, 0.1, 0.4)) * choose.random(), events, choose.random() < 0.3)


def leave_h1(port: int, drop: Dropped) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        body = json.dumps(drop.body).encode()
        fields = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        head = f"POST {drop.path} HTTP/1.1\r\n{fields}\r\n\r\n".encode()
        half = drop.abort and drop.events == 0 and drop.wait_s == 0.0
        connection.sendall(head + (body[: len(body) // 2] if half else body))
        threading.Event().wait(drop.wait_s)
        read = b""
        while read.count(b"data: ") < drop.events:
            data = connection.recv(4096)
            assert data, read
            read += data
        if drop.abort:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def leave_h2(connection: RawH2, drop: Dropped) -> None:
    stream = connection.post(drop.path, drop.body)
    connection.pump(lambda: False, drop.wait_s)
    assert connection.pump(lambda: connection.data(stream).count(b"data: ") >= drop.events, 60)
    if not connection.of(stream, h2.events.StreamEnded):
        connection.reset(stream)


def leave_all(port: int, drops: list[Dropped]) -> None:
    """HTTP/1.1, a connection a call, and HTTP/2, resetting streams of one connection, in turns."""
    with RawH2(port) as connection:
        for number, drop in enumerate(drops):
            if number % 2:
                leave_h2(connection, drop)
            else:
                leave_h1(port, drop)
        connection.post(CHAT, drops[0].body)  # and then the connection closes


def open_files() -> int:
    return len(os.listdir(f"/proc/{os.getpid()}/fd"))


def test_nothing_stays_behind(live):
    assert_golden(live.url)
    assert_nothing_held(live.url)
    tasks = live.ask(lambda: len(asyncio.all_tasks()))
    files, before = open_files(), live.engine.statistics()
    drops = list(dropped(seed=7))
    groups = [drops[number::READERS] for number in range(READERS)]
    assert max(len(group) for group in groups) <= PER_CONNECTION
    with ThreadPoolExecutor(READERS) as readers:
        for done in [readers.submit(leave_all, live.port, group) for group in groups]:
            done.result(timeout=240)

    assert_nothing_held(live.url)
    services = live.serving.app.services
    assert live.ask(lambda: services.front_end.open_requests) == 0
    assert wait_for(lambda: live.ask(lambda: services.lifecycle.running) == 0)
    statistics = live.engine.statistics()
    assert statistics.finished["cancelled"] - before.finished["cancelled"] >= CALLS // 2
    assert statistics.finished["failed"] == before.finished["failed"]
    assert statistics.step_failures == before.step_failures
    assert statistics.slots_free == live.engine.limits.max_sequences and statistics.pages_live == 0
    assert not any(statistics.running.values()) and not any(statistics.waiting.values())
    assert wait_for(lambda: live.ask(lambda: len(asyncio.all_tasks())) <= tasks, 20)
    assert wait_for(lambda: open_files() <= files, 20)
    assert_golden(live.url, "chinese-beijing")
    assert_golden(live.url, "english-sky", http2=True)
