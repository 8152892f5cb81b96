"""A body ends with its client, and only then quietly."""

from __future__ import annotations

import asyncio

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
