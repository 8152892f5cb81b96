"""One batch from where it is to its end. Every line becomes one row, and none is asked for again once it has one.

Whoever holds a batch's lock works on it: one of all the processes that share the folder and serve its model. The lock
ends with its process, however that ends, and another goes on with the lines that have no row.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import math
import os
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import orjson

from andes_jax.batch_lines import BadLine, BatchLine
from andes_jax.jobs.batch_file import bad_row, is_error, read_lines, reply_row
from andes_jax.jobs.client import Client
from andes_jax.jobs.waiting import Patience
from server.batches.objects import Batch, Status, StoredFile
from server.batches.store import SharedStore, Store

logger = logging.getLogger("andes_jax.server")

CHUNK = 64  # lines that are read at a time
_LEFT = {
    "cancelled": ("batch_cancelled", "The batch was cancelled before this request was answered."),
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
}


class BatchWork:
    """The work of one process on one batch."""

    def __init__(
        self, batch_id: str, store: SharedStore, client: Client, places: asyncio.Semaphore, now: Callable[[], float]
    ) -> None:
        """`places` bounds the calls that go at once, over all batches; `now` is Unix time."""
        self._id = batch_id
        self._store = store
        self._client = client
        self._places = places
        self._now = now
        self._asking: asyncio.Task[None] | None = None

    def stop_asking(self) -> None:
        """End the calls that run: the batch is cancelled, or its time is over."""
        if self._asking is not None:
            self._asking.cancel()

    async def run(self) -> None:
        """Bring the batch to its end, unless another process is at it. A full disk is waited out."""
        with self._locked() as ours:
            patience = Patience(math.inf)
            while ours:
                try:
                    await self._go_on()
                    return
                except (OSError, sqlite3.Error) as error:
                    logger.warning("batch %s waits: %s", self._id, error)
                    await patience.wait()

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        path = self._store.folder / "locks" / self._id
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    async def _go_on(self) -> None:
        batch = await self._store(Store.batch, self._id)
        if batch is None:
            return
        source = self._store.folder / "contents" / batch.input_file_id
        if batch.status == "validating":
            batch = await self._begin(source)
        if batch.status == "in_progress" and self._now() < batch.expires_at:
            await self._ask(source, batch)
            batch = await self._store(Store.change_batch, self._id, self._asked)
        if batch.status == "failed":
            return
        end: Status = {"finalizing": "completed", "cancelling": "cancelled"}.get(batch.status, "expired")  # type: ignore[assignment]
        await self._end(source, batch, end)

    async def _begin(self, source: Path) -> Batch:
        """Count the calls; a file without any fails the batch."""
        try:
            total = await asyncio.to_thread(lambda: sum(1 for _ in read_lines(source)))
        except OSError as error:
            code, message, total = "invalid_file", f"The input file cannot be read: {error.strerror}.", 0
        else:
            code, message = "empty_file", "The input file has no lines."
        now = int(self._now())

        def change(batch: Batch) -> Batch:
            if batch.status != "validating":
                return batch  # it is to be cancelled
            if not total:
                fault = {"code": code, "message": message, "param": None, "line": None}
                return batch.become("failed", now, errors=(fault,))
            return batch.become("in_progress", now, total=total)

        return await self._store(Store.change_batch, self._id, change)

    def _asked(self, batch: Batch) -> Batch:
        """The batch once nothing is asked for any more."""
        now = self._now()
        over = batch.status != "in_progress" or now >= batch.expires_at
        return batch if over else batch.become("finalizing", int(now))

    async def _ask(self, source: Path, batch: Batch) -> None:
        """Ask for what has no row, until all is answered or `stop_asking`."""
        asking = self._asking = asyncio.create_task(self._ask_all(source, batch.endpoint))
        try:
            await asyncio.wait([asking])
        finally:
            self._asking = None
            asking.cancel()
            await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()

    async def _ask_all(self, source: Path, endpoint: str) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                async for line in self._lines(source):
                    await self._places.acquire()
                    group.create_task(self._answer(line, endpoint))
        except* (OSError, sqlite3.Error) as errors:
            raise errors.exceptions[0] from None

    async def _lines(self, source: Path) -> AsyncIterator[BatchLine | BadLine]:
        """The lines that have no row."""
        done = await self._store(Store.lines_done, self._id)
        lines = (line for line in read_lines(source) if line.number not in done)
        while chunk := await asyncio.to_thread(lambda: list(islice(lines, CHUNK))):
            for line in chunk:
                yield line

    async def _answer(self, line: BatchLine | BadLine, endpoint: str) -> None:
        """Make a line's call, and keep its row."""
        try:
            if isinstance(line, BatchLine) and line.url != endpoint:
                message = f"url must be the batch's endpoint, {endpoint}."
                line = BadLine(line.number, line.custom_id, "mismatched_url", message, "url")
            if isinstance(line, BadLine):
                row = bad_row(line)
            else:
                row = reply_row(line, await self._client.post(line.url, line.body))
        finally:
            self._places.release()
        await self._store(Store.put_rows, self._id, [(line.number, is_error(row), orjson.dumps(row))])

    async def _end(self, source: Path, batch: Batch, status: Status) -> None:
        """Give the lines that are left their rows, and write all rows to files."""
        if status in _LEFT:
            code, message = _LEFT[status]
            left = [line async for line in self._lines(source)] if batch.total else []
            rows = [bad_row(BadLine(line.number, line.custom_id, code, message)) for line in left]
            kept = [(line.number, True, orjson.dumps(row)) for line, row in zip(left, rows, strict=True)]
            await self._store(Store.put_rows, self._id, kept)
        now = int(self._now())
        ended = batch.become(status, now)
        expires_at = None if batch.output_seconds is None else now + batch.output_seconds
        outputs = []
        for name, failed in (("output_file_id", False), ("error_file_id", True)):
            draft = self._store.folder / f"{self._id}-{name}.draft"
            size = await self._store(Store.write_rows, self._id, failed=failed, draft=draft)
            if not size:
                draft.unlink()
                continue
            kind = "error" if failed else "output"
            file = StoredFile(
                f"file-{uuid.uuid4().hex}", f"{self._id}_{kind}.jsonl", size, "batch_output", now, expires_at
            )
            ended = ended.with_file(name, file.id)
            outputs.append((file, draft))
        await self._store(Store.end_batch, ended, outputs)
        (self._store.folder / "locks" / self._id).unlink(missing_ok=True)
