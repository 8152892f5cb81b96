"""andes-jax serve --http-workers: connections in processes of their own, with the real model and real kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.replies import COMPLETIONS, Replies, ask, expected, read_events
from tests.end_to_end.server_process import ServerProcess, assert_nothing_held, held, metrics, server_process, wait_for

pytestmark = pytest.mark.timeout(280)
LONG = {"prompt": "Once upon a time", "stream": True, "max_tokens": 300, "ignore_eos": True, "temperature": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """Two processes for connections; the last test ends them."""
    with server_process("--no-warmup", "--http-workers", "2") as running:
        yield running


def workers(server: ServerProcess) -> list[int]:
    """Ids of the processes that serve connections."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [pid for pid in map(int, children) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Connections go to the other process meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def long_reply(url: str) -> Replies:
    with httpx.stream("POST", url + COMPLETIONS, json=LONG, timeout=60) as answer:
        assert answer.status_code == 200
        return read_events(answer.iter_lines())


def by_each(server: ServerProcess, threads: ThreadPoolExecutor) -> tuple[list[int], list[Future[Replies]]]:
    """A long reply by each process, begun."""
    first, second = workers(server)
    replies = []
    for idle in (second, first):
        with stopped(idle):
            before = held(server.url)["streams"]
            replies.append(threads.submit(long_reply, server.url))
            assert wait_for(lambda before=before: held(server.url)["streams"] > before)
    return [first, second], replies


def test_text_is_that_of_one_process_byte_for_byte_and_figures_are_of_all(server, cases):
    before = metrics(server.url)
    for case, idle in zip(list(cases.values())[:2], workers(server), strict=False):
        with stopped(idle):
            reply = ask(server.url, case)
        assert (reply.text, reply.finish, reply.done) == (expected(case), "length", True)
    with ThreadPoolExecutor(2) as threads:
        _, replies = by_each(server, threads)
        one, other = (reply.result(60) for reply in replies)
    assert one.done and other.done and one.text == other.text
    name = "andes_requests_finished_total{endpoint=/v1/completions,finish_reason=length}"
    after = metrics(server.url)
    assert after[name] - before.get(name, 0) >= 2  # whichever process is asked
    assert sum(value for key, value in after.items() if key.startswith("andes_requests_finished_total")) == 4
    assert_nothing_held(server.url)


def test_a_killed_process_takes_its_own_replies_with_it_and_is_replaced(server, cases):
    with ThreadPoolExecutor(2) as threads:
        (first, second), (lost, kept) = by_each(server, threads)
        os.kill(first, signal.SIGKILL)
        assert isinstance(lost.exception(20), httpx.TransportError)
        assert kept.result(60).done
    assert wait_for(lambda: second in workers(server) and len(set(workers(server)) - {first}) == 2, 20)
    assert wait_for(lambda: not any(held(server.url)[name] for name in ("running", "waiting", "pages", "streams")), 20)
    case = next(iter(cases.values()))
    with stopped(second):
        assert ask(server.url, case).text == expected(case)


def test_sigterm_lets_the_replies_of_all_processes_end(server):
    with ThreadPoolExecutor(2) as threads:
        pids, replies = by_each(server, threads)
        server.process.send_signal(signal.SIGTERM)
        for reply in replies:
            assert reply.result(60).done
    assert server.wait_end(30) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_nothing_is_left_of_a_killed_server():
    with server_process("--no-warmup", "--http-workers", "1") as running:
        (pid,) = workers(running)
        running.process.kill()
        assert wait_for(lambda: not Path(f"/proc/{pid}").exists(), 20)
