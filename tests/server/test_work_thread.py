"""Slow work has a bound, and what nobody waits for is not done."""

from __future__ import annotations

import asyncio
import threading

import pytest

from server.errors import ApiError
from server.work_thread import WorkThread
from tests.server.waiting import wait_for


async def test_results_and_faults_come_back():
    thread = WorkThread("test", 1)
    assert await thread.run(lambda: threading.current_thread().name) == "test_0"
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: 3) == 3


async def test_more_than_fits_is_refused_and_cancelled_work_is_left_out():
    thread, begin, begun, done = WorkThread("test", 2), threading.Event(), threading.Event(), []

    def first():
        begun.set()
        begin.wait(5)
        done.append("first")

    running = asyncio.create_task(thread.run(first))
    waiting = asyncio.create_task(thread.run(lambda: done.append("second")))
    assert await asyncio.to_thread(begun.wait, 5)
    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            await thread.run(lambda: done.append("third"))
        assert refused.value.status == 503 and refused.value.headers["retry-after"]
        waiting.cancel()  # its place is free only once the queue is rid of it
        await asyncio.wait([waiting])
    running.cancel()
    await asyncio.wait([running])
    begin.set()
    assert await asyncio.to_thread(wait_for, lambda: done == ["first"])
    await thread.run(lambda: done.append("fourth"))
    assert done == ["first", "fourth"]
