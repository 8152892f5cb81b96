"""Looks for batches and works on them in the batch tier, through the very application that is served."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable

from andes_jax.jobs.client import Client
from server.batches.objects import Batch
from server.batches.store import SharedStore, Store
from server.batches.work import BatchWork

logger = logging.getLogger("andes_jax.server")

LOOK_S = 2.0  # how often batches of other processes' clients are looked for


class BatchRunner:
    """The batches of one model that this process works on. Belongs to one event loop."""

    def __init__(
        self, store: SharedStore, client: Client, model: str, places: int, now: Callable[[], float] = time.time
    ) -> None:
        """At most `places` calls of all batches go at once; `now` is Unix time."""
        self._store = store
        self._client = client
        self._model = model
        self._places = asyncio.Semaphore(places)
        self._now = now
        self._at_work: dict[str, BatchWork] = {}
        self._news = asyncio.Event()

    def look(self) -> None:
        """There is something new: a batch was added, or is to be cancelled."""
        self._news.set()

    async def run(self) -> None:
        """Work on whatever comes, until cancelled; what is unfinished then waits for the next process."""
        async with asyncio.TaskGroup() as group:
            while True:
                if self._store.exists:
                    await self._look(group)
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._news.wait()
                except TimeoutError:
                    continue
                self._news.clear()

    async def _look(self, group: asyncio.TaskGroup) -> None:
        try:
            await self._store(Store.delete_expired, int(self._now()))
            unfinished = await self._store(Store.unfinished, self._model)
        except (OSError, sqlite3.Error) as error:
            logger.warning("batches cannot be looked for: %s", error)
            return
        for batch in unfinished:
            work = self._at_work.get(batch.id)
            if work is None:
                self._at_work[batch.id] = BatchWork(batch.id, self._store, self._client, self._places, self._now)
                group.create_task(self._work_on(batch))
            elif batch.status == "cancelling" or self._now() >= batch.expires_at:
                work.stop_asking()

    async def _work_on(self, batch: Batch) -> None:
        try:
            await self._at_work[batch.id].run()
        except Exception:
            logger.exception("batch %s failed", batch.id)
        finally:
            del self._at_work[batch.id]  # it is looked for again, unless it is at its end
