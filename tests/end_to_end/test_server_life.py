"""Signals to a server at work: every stream comes to an end, the process too, in time and without a traceback."""

from __future__ import annotations

import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx
import pytest

from tests.end_to_end.replies import COMPLETIONS, Replies, ask, expected, read_events
from tests.end_to_end.server_process import SEQUENCES, ServerProcess, metrics, server_process, wait_for

pytestmark = pytest.mark.timeout(280)
STREAMS = 20
DRAIN_S = 2


def endless(url: str, number: int, clients: list[httpx.Client]) -> Replies:
    """A reply that takes longer than the drain; every other over HTTP/2, on one connection."""
    body = {"prompt": f"Chapter {number}.", "stream": True, "max_tokens": 1000, "ignore_eos": True}
    with clients[number % 2].stream("POST", url + COMPLETIONS, json=body) as answer:
        assert answer.status_code == 200
        return read_events(answer.iter_lines())


def start_streams(server: ServerProcess, threads: ThreadPoolExecutor, stack: ExitStack) -> list[Future[Replies]]:
    limits = httpx.Limits(max_connections=STREAMS)
    clients = [
        stack.enter_context(httpx.Client(timeout=60, limits=limits)),
        stack.enter_context(httpx.Client(timeout=60, http1=False, http2=True)),
    ]
    streams = [threads.submit(endless, server.url, number, clients) for number in range(STREAMS)]

    def all_begun() -> bool:
        values = metrics(server.url)
        return values["andes_streams_open"] == STREAMS and values["andes_engine_generated_tokens_total"] > 2 * SEQUENCES

    assert wait_for(all_begun, 60, every_s=0.05)
    return streams


def assert_turned_away(server: ServerProcess, kept: httpx.Client) -> None:
    """While it drains: a kept connection hears why, a new one is refused or hears it too."""
    assert wait_for(lambda: kept.get("/ready").status_code == 503, DRAIN_S / 2)
    refused = kept.post(COMPLETIONS, json={"prompt": "hi", "max_tokens": 1})
    assert refused.status_code == 503 and refused.json()["error"]["code"] == "shutting_down"
    with suppress(httpx.ConnectError):
        assert httpx.post(server.url + COMPLETIONS, json={"prompt": "hi"}, timeout=10).status_code == 503


def test_sigterm_with_twenty_streams():
    with (
        server_process("--shutdown-timeout", f"{DRAIN_S}") as server,
        ThreadPoolExecutor(STREAMS) as threads,
        ExitStack() as stack,
    ):
        streams = start_streams(server, threads, stack)
        with httpx.Client(base_url=server.url, timeout=10) as kept:
            assert kept.get("/ready").status_code == 200
            server.process.send_signal(signal.SIGTERM)
            told = time.monotonic()
            assert_turned_away(server, kept)
        replies = [stream.result(timeout=30) for stream in streams]
        code = server.wait_end(30)
        took = time.monotonic() - told
        assert code == 0
        assert DRAIN_S - 0.1 < took < DRAIN_S + 4, took
        for reply in replies:
            assert reply.done, "a stream without its end"
            finished = [finish for choice in reply.choices.values() for finish in choice.finishes]
            assert finished in (["stop"], ["length"]) if reply.error is None else not finished
            assert reply.error is None or reply.error["code"] == "shutting_down"
        assert sum(bool(reply.choices) for reply in replies) >= SEQUENCES, "running streams had text"
        assert "Traceback" not in "".join(server.errors), "".join(server.errors)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health")


def test_sigint_lets_replies_finish(cases):
    with server_process("--no-warmup") as server, ThreadPoolExecutor(4) as threads:
        case = cases["english-sky"]
        replies = [threads.submit(ask, server.url, case, http2=bool(number % 2)) for number in range(4)]
        assert wait_for(lambda: metrics(server.url)["andes_engine_generated_tokens_total"] > 0, 120, every_s=0.05)
        server.process.send_signal(signal.SIGINT)
        for reply in replies:
            assert (reply.result(60).text, reply.result().finish) == (expected(case), "length")
        assert server.wait_end(10) == 0
        assert "Traceback" not in "".join(server.errors)


def test_sigterm_before_it_is_ready():
    server = ServerProcess()
    try:
        assert wait_for(lambda: any("loading" in line for line in server.errors), 60)
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_end(10) == 128 + signal.SIGTERM
        assert "Traceback" not in "".join(server.errors)
    finally:
        server.close()
