"""An engine's process ends in order."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest

from andes_jax.clock import WallClock
from andes_jax.remote.host import host_engine
from andes_jax.remote.listener import ListenSettings
from andes_jax.remote.service import EngineService
from andes_jax.request import FinishReason, Refusal
from tests.fakes import Inbox
from tests.server.waiting import wait_for
from tests.unit.remote.parts import DESCRIPTION, fake_engine, front_end, request


def run(timeout_s: float, during, gap_s: float = 0.01) -> tuple[int, float]:
    """Host a fake engine in this thread, as the process does, with `during(address)` in another; code and seconds."""
    engine = fake_engine(gap_s=gap_s)
    started = time.monotonic()
    threads: list[threading.Thread] = []

    def announce(url: str) -> None:
        threads.append(threading.Thread(target=during, args=(url.removeprefix("grpc://"),)))
        threads[0].start()

    code = asyncio.run(
        host_engine(
            engine,
            lambda: EngineService(engine, DESCRIPTION, WallClock()),
            ListenSettings("127.0.0.1:0"),
            timeout_s,
            announce,
        )
    )
    threads[0].join(10)
    assert engine.state == "stopped" and engine.live == []
    return code, time.monotonic() - started


@pytest.mark.parametrize(("tokens", "timeout_s", "finish"), [(30, 5, "length"), (10**6, 0.2, "failed")])
def test_a_signal_drains_and_then_ends_what_is_left(tokens, timeout_s, finish):
    inbox, refused = Inbox(), []

    def during(address: str) -> None:
        with front_end(address) as remote:
            remote.submit_all([request("a", tokens)], inbox).result(5)
            signal.raise_signal(signal.SIGTERM)
            assert wait_for(lambda: remote.state == "draining")
            try:
                remote.submit_all([request("b")], inbox).result(5)
            except Refusal as refusal:
                refused.append(refusal.code)
            assert wait_for(lambda: inbox.finishes("a"))

    code, _ = run(timeout_s, during)
    assert code == 0 and inbox.finishes("a") == [FinishReason(finish)] and refused == ["shutting_down"]


def test_a_second_signal_ends_everything_at_once():
    inbox = Inbox()

    def during(address: str) -> None:
        with front_end(address) as remote:
            remote.submit_all([request("a", 10**6)], inbox).result(5)
            signal.raise_signal(signal.SIGTERM)
            assert wait_for(lambda: remote.state == "draining")
            signal.raise_signal(signal.SIGINT)
            assert wait_for(lambda: inbox.finishes("a"))

    code, seconds = run(30, during)
    assert code == 128 + signal.SIGINT and seconds < 10
    assert inbox.finishes("a") == [FinishReason.FAILED]
