"""Many pieces of work at once, a bounded number of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable


async def for_each[T](items: Iterable[T], work: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """Do the work for every item, which are taken from `items` only when their turn comes.

    The first exception cancels the rest and is raised, by itself.
    """
    source = iter(items)

    async def worker() -> None:
        for item in source:
            await work(item)

    workers = [asyncio.create_task(worker()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
