"""Rows on their way to the disk: those that come while others are being written are written together."""

from __future__ import annotations

import asyncio

from server.batches.shared import SharedStore
from server.batches.store import Store

Row = tuple[int, bool, bytes]  # the line that it is of, whether it is an error, and itself


class Rows:
    """Keeps the rows of one batch."""

    def __init__(self, store: SharedStore, batch_id: str) -> None:
        self._store = store
        self._batch_id = batch_id
        self._waiting: list[Row] = []
        self._writing = asyncio.Lock()

    async def put(self, row: Row) -> None:
        """Keep a row; it is on the disk when this returns.

        Raises OSError and sqlite3.Error, and then other rows that wait may be lost too: they are to be made again.
        """
        self._waiting.append(row)
        async with self._writing:
            if self._waiting:  # or whoever was here before has written it
                rows, self._waiting = self._waiting, []
                await self._store(Store.put_rows, self._batch_id, rows)
