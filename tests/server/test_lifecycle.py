"""Counting calls, and turning new ones away."""

from __future__ import annotations

import asyncio

import pytest

from server.errors import ApiError
from server.lifecycle import Gate, Lifecycle


async def nothing(*ignored):
    return {}


def gate(path: str, app=nothing, lifecycle: Lifecycle | None = None):
    lifecycle = lifecycle or Lifecycle()
    return Gate(app, lifecycle)({"type": "http", "path": path}, nothing, nothing)


@pytest.mark.parametrize(
    ("path", "open_"), [("/health", True), ("/ready", True), ("/metrics", True), ("/v1/models", False), ("/", False)]
)
async def test_only_operators_are_answered_while_draining(path, open_):
    lifecycle = Lifecycle()
    lifecycle.draining = True
    if open_:
        await gate(path, lifecycle=lifecycle)
    else:
        with pytest.raises(ApiError) as raised:
            await gate(path, lifecycle=lifecycle)
        assert raised.value.code == "shutting_down"
    assert lifecycle.running == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_idle_comes_when_the_last_call_ends(fails):
    lifecycle = Lifecycle()
    go = asyncio.Event()

    async def app(*ignored):
        await go.wait()
        if fails:
            raise ValueError

    calls = [asyncio.create_task(gate("/v1", app, lifecycle)) for _ in range(3)]
    assert await lifecycle.wait_idle(0)
    await asyncio.sleep(0)
    assert lifecycle.running == 3 and not await lifecycle.wait_idle(0.01)
    go.set()
    assert await lifecycle.wait_idle(1) and lifecycle.running == 0
    await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_can_be_ended():
    lifecycle = Lifecycle()
    call = asyncio.create_task(gate("/v1", lambda *ignored: asyncio.sleep(60), lifecycle))
    await asyncio.sleep(0)
    lifecycle.cancel_calls()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert lifecycle.running == 0
