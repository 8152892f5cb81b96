"""An event that plain functions can set."""

from __future__ import annotations

import asyncio

from server.hypercorn_repairs.wakeup import Wakeup


async def test_a_call_wakes_whoever_waits():
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    wakeup.call()
    await asyncio.wait_for(waiting, 1)
    await wakeup.clear()
    assert not wakeup.is_set()
