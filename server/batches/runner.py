"""Looks for batches and works on them in the batch tier, through the very application that is served."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable

from andes_jax.jobs.client import Client
from server.batches.places import Places
from server.batches.shared import SharedStore
from server.batches.store import Store
from server.batches.work import BatchWork

logger = logging.getLogger("andes_jax.server")

LOOK_S = 2.0  # how often batches of other processes' clients are looked for
FAULT_S = 30.0  # that a batch rests after a fault of ours
MOST_AT_WORK = 16  # batches, each of which holds a few lines of its input


class BatchRunner:
    """The batches of one model that this process works on. Belongs to one event loop."""

    def __init__(
        self, store: SharedStore, client: Client, model: str, places: int, now: Callable[[], float] = time.time
    ) -> None:
        """At most `places` replies are asked for at once, over all batches; `now` is Unix time."""
        self._store = store
        self._client = client
        self._model = model
        self._places = Places(places)
        self._now = now
        self._at_work: dict[str, BatchWork] = {}
        self._news = asyncio.Event()
        self._swept = False

    def look(self) -> None:
        """There is something new: a batch was added, or is to be cancelled."""
        self._news.set()

    async def run(self) -> None:
        """Work on whatever comes, until cancelled; what is unfinished then waits for the next process."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._news.clear()
                try:
                    if self._store.exists:
                        await self._look(group)
                except (OSError, sqlite3.Error) as error:
                    logger.warning("batches cannot be looked for: %s", error)
                except Exception:
                    logger.exception("batches cannot be looked for")
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._news.wait()
                except TimeoutError:
                    continue

    async def _look(self, group: asyncio.TaskGroup) -> None:
        if not self._swept:
            await self._store(Store.sweep, self._now())
            self._swept = True
        await self._store(Store.delete_expired, int(self._now()))
        for batch in await self._store(Store.unfinished, self._model):
            work = self._at_work.get(batch.id)
            if work is not None:
                if batch.status == "cancelling":
                    work.stop_asking()
            elif len(self._at_work) < MOST_AT_WORK or batch.status == "cancelling":
                self._at_work[batch.id] = BatchWork(batch.id, self._store, self._client, self._places, self._now)
                group.create_task(self._work_on(batch.id))

    async def _work_on(self, batch_id: str) -> None:
        try:
            await self._at_work[batch_id].run()
        except OSError as error:
            logger.warning("batch %s cannot be worked on: %s", batch_id, error)
        except Exception:
            logger.exception("batch %s failed", batch_id)
            await asyncio.sleep(FAULT_S)
        finally:
            del self._at_work[batch_id]  # it is looked for again, unless it is at its end
