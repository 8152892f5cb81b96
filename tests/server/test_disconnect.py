"""A body ends with its client, and only then quietly."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from server.disconnect import UntilDisconnect


def inbox(*messages: str) -> asyncio.Queue:
    queue: asyncio.Queue = asyncio.Queue()
    for message in messages:
        queue.put_nowait({"type": message})
    return queue


async def test_leaving_ends_the_body_and_not_what_follows():
    async with UntilDisconnect(inbox("http.request", "http.disconnect").get) as watch:
        await asyncio.sleep(60)
    assert watch.gone
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_a_body_that_ends_by_itself():
    async with UntilDisconnect(inbox().get) as watch:
        await asyncio.sleep(0)
    assert not watch.gone
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_faults_of_the_body_pass():
    with pytest.raises(ZeroDivisionError):
        async with UntilDisconnect(inbox().get):
            raise ZeroDivisionError


@pytest.mark.parametrize("messages", [(), ("http.disconnect",)])
async def test_cancellation_from_elsewhere_passes(messages):
    begun = asyncio.Event()

    async def call():
        async with UntilDisconnect(inbox(*messages).get):
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("turns", range(6))
async def test_leaving_just_as_the_body_ends_cancels_nothing_that_follows(turns):
    """The disconnect comes some turns of the loop before or after the one in which the body ends."""
    queue, end = inbox(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def after(count, act):
        if count == 0:
            act()
        else:
            loop.call_soon(after, count - 1, act)

    for first in (True, False):
        end.clear()
        after(turns if first else 3, lambda: queue.put_nowait({"type": "http.disconnect"}))
        after(3 if first else turns, end.set)
        async with UntilDisconnect(queue.get):
            await end.wait()
        for _ in range(8):
            await asyncio.sleep(0)
        assert asyncio.current_task().cancelling() == 0
        while not queue.empty():
            queue.get_nowait()


async def test_a_body_that_swallows_its_cancellation():
    async with UntilDisconnect(inbox("http.disconnect").get) as watch:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
    await asyncio.sleep(0)
    assert watch.gone and asyncio.current_task().cancelling() == 0


async def test_a_body_that_ends_without_waiting_hears_nothing_later():
    async with UntilDisconnect(inbox("http.disconnect").get):
        pass
    for _ in range(3):
        await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0
