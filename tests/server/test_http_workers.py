"""server.http_workers: processes are started, replaced and ended, with processes that do nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from server import http_workers
from server.http_workers import HttpWorkers, WorkerError, end_with

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(60)


def polite(folder: Path, number: int, link: Connection) -> None:
    """Says that it serves, and leaves a file when it is told to end."""

    def leave(signal_number: int, frame: Any) -> None:
        (folder / f"left-{os.getpid()}").touch()
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    (folder / f"{number}-{os.getpid()}").touch()
    end_with(link)
    link.send((number, os.getpid()))
    while True:
        time.sleep(60)


def deaf(number: int, link: Connection) -> None:
    """Serves, and does not end when it is told to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link.send(os.getpid())
    time.sleep(60)


def broken(number: int, link: Connection) -> None:
    """The second one cannot begin."""
    if number == 1:
        raise SystemExit(3)
    link.send(os.getpid())
    time.sleep(60)


def begun(folder: Path) -> list[int]:
    """Process ids of all that have ever begun."""
    return [int(path.name.split("-")[1]) for path in sorted(folder.glob("[0-9]-*"))]


def left(folder: Path) -> set[int]:
    return {int(path.name.split("-")[1]) for path in folder.glob("left-*")}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def run(count: int, main: Callable[[int, Connection], None], then: Callable[[HttpWorkers], Any], **more: Any) -> int:
    """The exit code of so many processes; `then` is awaited once they serve, and has to end them."""

    async def both() -> int:
        workers = HttpWorkers(count, main, more.pop("drain_s", 5.0), **more)
        said: list[Any] = []
        task = asyncio.create_task(workers.run(said.append))
        waiting = asyncio.create_task(until(lambda: bool(said)))
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if said:
            assert len(said) == 1
            await then(workers)
        return await task

    return asyncio.run(both())


def test_all_serve_and_all_drain_on_the_first_signal(tmp_path: Path):
    dead: list[int] = []

    async def then(workers: HttpWorkers) -> None:
        assert len(begun(tmp_path)) == 3
        os.kill(os.getpid(), signal.SIGTERM)

    assert run(3, partial(polite, tmp_path), then, on_death=dead.append) == 0
    assert left(tmp_path) == set(begun(tmp_path)) == set(dead)


def test_the_announcement_is_the_first_processs(tmp_path: Path):
    said: list[Any] = []

    async def both() -> int:
        workers = HttpWorkers(2, partial(polite, tmp_path), 5.0)
        task = asyncio.create_task(workers.run(said.append))
        await until(lambda: bool(said))
        workers.on_signal(signal.SIGINT)
        return await task

    assert asyncio.run(both()) == 0
    assert [number for number, _ in said] == [0]


def test_one_that_is_killed_is_replaced_and_the_others_stay(tmp_path: Path):
    dead: list[int] = []

    async def then(workers: HttpWorkers) -> None:
        first = begun(tmp_path)
        os.kill(first[0], signal.SIGKILL)
        await until(lambda: len(begun(tmp_path)) == 3)
        assert dead == [first[0]]
        assert alive(first[1])
        workers.on_signal(signal.SIGTERM)

    assert run(2, partial(polite, tmp_path), then, on_death=dead.append) == 0
    assert left(tmp_path) == set(begun(tmp_path)) - {dead[0]}


def test_one_that_cannot_begin_ends_all():
    async def never(workers: HttpWorkers) -> None:
        raise AssertionError("not all could begin")

    with pytest.raises(WorkerError, match="exit code 3"):
        run(2, broken, never)


def test_a_second_signal_reaches_the_processes_too(tmp_path: Path):
    async def then(workers: HttpWorkers) -> None:
        workers.on_signal(signal.SIGINT)
        workers.on_signal(signal.SIGTERM)

    assert run(1, partial(polite, tmp_path), then) == 128 + signal.SIGTERM


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_workers, "END_S", 0.1)

    async def then(workers: HttpWorkers) -> None:
        workers.on_signal(signal.SIGTERM)

    assert run(1, deaf, then, drain_s=0.1) == 0


def test_ctrl_c_in_a_terminal_reaches_the_first_process_alone(tmp_path: Path):
    async def then(workers: HttpWorkers) -> None:
        for pid in begun(tmp_path):
            os.kill(pid, signal.SIGINT)
        await asyncio.sleep(0.2)
        assert all(map(alive, begun(tmp_path)))
        os.kill(os.getpid(), signal.SIGINT)

    assert run(2, partial(polite, tmp_path), then) == 0
    assert left(tmp_path) == set(begun(tmp_path))


PARENT = """
import asyncio, sys
from functools import partial
from pathlib import Path
from server.http_workers import HttpWorkers
from tests.server.test_http_workers import polite

async def main():
    await HttpWorkers(2, partial(polite, Path(sys.argv[1])), 5.0).run(lambda said: print("ready", flush=True))

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_they_end_when_the_process_that_started_them_is_killed(tmp_path: Path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script, tmp_path], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
    deadline = time.monotonic() + 20
    while left(tmp_path) != set(begun(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert len(begun(tmp_path)) == 2
