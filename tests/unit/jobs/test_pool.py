"""Work at once, bounded, and ended by the first failure."""

from __future__ import annotations

import asyncio

import pytest

from andes_jax.jobs.pool import for_each


async def test_all_is_done_and_never_more_at_once_than_said():
    taken, running, most, done = 0, 0, 0, []

    def items():
        nonlocal taken
        while taken < 20:
            taken += 1
            yield taken

    async def work(item):
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert taken <= len(done) + 3, "items are taken when their turn comes"
        await asyncio.sleep(0)
        running -= 1
        done.append(item)

    await for_each(items(), work, 3)
    assert sorted(done) == list(range(1, 21)) and most == 3


async def test_the_first_failure_is_raised_and_ends_the_rest():
    ended = []

    async def work(item):
        if item == 1:
            raise KeyError("broken")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(KeyError, match="broken"):
        await for_each([0, 1, 2, 3], work, 2)
    assert ended == [0]
