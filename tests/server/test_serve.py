"""The server as a process: addresses, signals, the drain, exit codes."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h2.events
import httpx
import pytest

from tests.server.parts import chat, chat_text, events_of
from tests.server.raw_h2 import RawH2
from tests.server.waiting import wait_for

CHAT = "/v1/chat/completions"
ROOT = Path(__file__).parent.parent.parent


class Process:
    def __init__(self, **settings) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.serve_fake", json.dumps(settings)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        match = re.search(r"http://\S+", line)
        assert match, line + (self.process.stderr.read() if self.process.stderr else "")
        self.url = match[0]
        self.port = int(self.url.rsplit(":", 1)[1])
        return self.url

    def end(self, timeout_s: float = 10) -> tuple[int, str]:
        """Exit code and what was said on stderr."""
        _, errors = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, errors


@contextmanager
def process(**settings) -> Iterator[Process]:
    running = Process(**settings)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()


def streams(url: str, count: int, results: list[bytes], **parameters) -> list[threading.Thread]:
    """Streams being read, each in a thread; on half of them HTTP/2."""

    def read(h2_client: bool) -> None:
        with (
            httpx.Client(http1=not h2_client, http2=h2_client, timeout=20) as client,
            client.stream("POST", url + CHAT, json=chat(stream=True, **parameters)) as answer,
        ):
            begun.release()
            results.append(answer.read())

    begun = threading.Semaphore(0)
    threads = [threading.Thread(target=read, args=(number % 2 == 0,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=10)
    return threads


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_streams_finish(number):
    with process(gap_s=0.02) as server:
        url = server.wait_ready()
        results: list[bytes] = []
        threads = streams(url, 20, results, max_tokens=50)
        with httpx.Client(base_url=url) as kept, RawH2(server.port) as raw:
            assert kept.get("/ready").status_code == 200
            server.process.send_signal(number)
            assert wait_for(lambda: kept.get("/ready").status_code == 503)
            assert kept.get("/health").status_code == 200
            refused = kept.post(CHAT, json=chat())
            assert refused.status_code == 503 and refused.json()["error"]["code"] == "shutting_down"
            assert "retry-after" in refused.headers
            assert raw.status(raw.post(CHAT, chat(stream=True))) == 503
            joined(threads)
            assert raw.pump(lambda: raw.closed)
            assert any(isinstance(each, h2.events.ConnectionTerminated) for each in raw.events)  # GOAWAY
        assert [len(chat_text(events_of(result))) for result in results] == [50] * 20
        assert server.end() == (0, "")


def test_streams_that_take_too_long_end_with_an_error():
    with process(gap_s=0.05, shutdown_timeout_s=0.5) as server:
        results: list[bytes] = []
        threads = streams(server.wait_ready(), 20, results, max_tokens=2000)
        with httpx.Client(timeout=20) as client:
            unary: list[httpx.Response] = []
            asking = threading.Thread(target=lambda: unary.append(client.post(server.url + CHAT, json=chat())))
            asking.start()
            time.sleep(0.2)
            started = time.monotonic()
            server.process.terminate()
            joined([*threads, asking])
        code, errors = server.end()
        assert code == 0 and time.monotonic() - started < 5
        assert "Traceback" not in errors
        for result in results:
            error = events_of(result)[-1]["error"]
            assert error["code"] == "shutting_down"
        assert unary[0].status_code == 503 and unary[0].json()["error"]["code"] == "shutting_down"


@pytest.mark.parametrize("kind", ["unread stream", "half a body", "half a head", "idle", "held"])
def test_no_client_can_hold_the_exit(kind):
    with process(gap_s=0.001, shutdown_timeout_s=0.3) as server:
        server.wait_ready()
        with RawH2(server.port, hungry=False) as raw, socket.create_connection(("127.0.0.1", server.port)) as plain:
            if kind == "unread stream":
                raw.status(raw.post(CHAT, chat(stream=True)))
            elif kind == "half a body":
                raw.headers(CHAT)
                plain.sendall(
                    b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                    b'content-length: 99\r\n\r\n{"'
                )
            elif kind == "half a head":
                plain.sendall(b"POST /v1/comp")
            elif kind == "held":
                raw.status(raw.post(CHAT, chat(stream=True, max_tokens=2000)))
            time.sleep(0.2)
            server.process.terminate()
            code, errors = server.end(8)
            assert code == 0 and "Traceback" not in errors, errors


def test_a_second_signal_ends_at_once():
    with process(gap_s=0.05, shutdown_timeout_s=60) as server:
        url = server.wait_ready()
        with httpx.Client(timeout=20) as client, client.stream("POST", url + CHAT, json=chat(stream=True)) as answer:
            assert answer.status_code == 200
            server.process.send_signal(signal.SIGINT)
            assert wait_for(lambda: httpx.get(url + "/ready").status_code == 503)
            started = time.monotonic()
            server.process.send_signal(signal.SIGINT)
            code, errors = server.end(5)
        assert code == 128 + signal.SIGINT and time.monotonic() - started < 3
        assert "Traceback" not in errors


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with process(port=port) as server:
            code, errors = server.end()
    assert code == 1
    [line] = errors.strip().splitlines()
    assert str(port) in line and "in use" in line


def test_a_unix_socket_beside_the_port(tmp_path):
    path = tmp_path / "server.sock"
    with process(unix_socket=str(path)) as server:
        server.wait_ready()
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
            assert client.post(f"http://server{CHAT}", json=chat(max_tokens=2)).status_code == 200
        assert httpx.get(server.url + "/health").status_code == 200
        server.process.terminate()
        assert server.end() == (0, "")
    assert not path.exists()


def test_ipv6():
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    with process(host="::1") as server:
        url = server.wait_ready()
        assert url.startswith("http://[::1]:") and httpx.get(url + "/health").status_code == 200
