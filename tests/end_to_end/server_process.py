"""andes-jax serve as a process of its own, and what its metrics say."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(tempfile.gettempdir(), "andes-jax-test-programs")  # the one that engines.py uses
CONTEXT = 1024
SEQUENCES = 8
START_LIMIT_S = 240.0


class ServerProcess:
    """A running server of the embedded model in float32. Its stderr is read as it comes, so that it never blocks.

    `program` is the command with what it alone needs.
    """

    def __init__(self, *arguments: str, program: tuple[str, ...] = ("serve", "--port", "0")) -> None:
        command = [sys.executable, "-m", "andes_jax.cli", *program, "--dtype", "float32"]
        command += ["--max-sequences", f"{SEQUENCES}", "--max-model-len", f"{CONTEXT}"]
        self._data = tempfile.TemporaryDirectory(prefix="andes-jax-test-")  # never the user's own files and batches
        if "serve" in program and "--data-dir" not in arguments:
            command += ["--data-dir", self._data.name]
        command += ["--compile-cache-dir", str(PROGRAMS), *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self.errors: list[str] = []
        self.url = ""
        self._announced = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)
            match = re.search(r"listening on ((?:http|grpc)://\S+)", line)
            if match and not self.url:
                self.url = match[1]
                self._announced.set()
        self._announced.set()

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def wait_ready(self) -> None:
        """Wait until the server takes connections."""
        assert self._announced.wait(START_LIMIT_S), "".join(self.errors)
        assert self.url, "".join(self.errors)

    def wait_end(self, timeout_s: float) -> int:
        """Wait for the end of the process; its exit code."""
        code = self.process.wait(timeout_s)
        self._reader.join(5)
        return code

    def close(self) -> None:
        """End it, in whatever way is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(5)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self._data.cleanup()


@contextmanager
def server_process(*arguments: str, **keywords: tuple[str, ...]) -> Iterator[ServerProcess]:
    """A process for the length of a block; ready when the block begins."""
    server = ServerProcess(*arguments, **keywords)
    try:
        server.wait_ready()
        yield server
    finally:
        server.close()


def metrics(url: str) -> dict[str, float]:
    """What /metrics says, by name with labels, such as andes_engine_running{tier=batch}."""
    answer = httpx.get(f"{url}/metrics", timeout=30)
    assert answer.status_code == 200
    values = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            values[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return values


def held(url: str) -> dict[str, float]:
    """What calls hold: all zero when nothing runs."""
    values = metrics(url)

    def total(prefix: str) -> float:
        return sum(value for name, value in values.items() if name.startswith(prefix))

    return {
        "running": total("andes_engine_running{"),
        "waiting": total("andes_engine_waiting{"),
        "streams": values["andes_streams_open"],
        "slots": SEQUENCES - values["andes_engine_slots_free"],
        "pages": values["andes_engine_pages_live"],
        "lost pages": values["andes_engine_pages_total"]
        - sum(values[f"andes_engine_pages_{kind}"] for kind in ("free", "cached", "live")),
        "unfinished": total("andes_requests_started_total{") - total("andes_requests_finished_total{"),
    }


def assert_nothing_held(url: str, timeout_s: float = 20.0) -> None:
    """Slots, pages and gauges come back to where they are when nothing runs, and no invariant was broken."""
    assert wait_for(lambda: not any(held(url).values()), timeout_s, every_s=0.05), held(url)
    values = metrics(url)
    assert values["andes_engine_invariant_failures_total"] == values["andes_engine_sink_failures_total"] == 0
    assert values["andes_engine_state{state=ready}"] == 1


def wait_for(condition: Callable[[], object], timeout_s: float = 10.0, every_s: float = 0.005) -> bool:
    """Whether the condition comes to hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
