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
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from itertools import islice
from pathlib import Path

import orjson

from andes_jax.batch_lines import BadLine, BatchLine, raw_lines
from andes_jax.jobs.batch_file import MAX_LINE_BYTES, bad_row, is_error, read_lines, reply_row
from andes_jax.jobs.client import Client
from andes_jax.jobs.waiting import Patience
from server.batches.objects import UNFINISHED, Batch, Status, StoredFile
from server.batches.places import Places, replies_to
from server.batches.rows import Row, Rows
from server.batches.shared import SharedStore
from server.batches.store import Store

logger = logging.getLogger("andes_jax.server")

CHUNK = 16  # lines that are read at a time
_ENDS: dict[Status, Status] = {"finalizing": "completed", "cancelling": "cancelled"}  # of others the time is over
_LEFT = {
    "cancelled": ("batch_cancelled", "The batch was cancelled before this request was answered."),
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
}


class BatchWork:
    """The work of one process on one batch."""

    def __init__(
        self,
        batch_id: str,
        store: SharedStore,
        client: Client,
        places: Places,
        now: Callable[[], float],
        patience: Callable[[], Patience] = lambda: Patience(math.inf),
    ) -> None:
        """`places` are those of all batches, `now` is Unix time, and `patience` waits out a disk that is full."""
        self._id = batch_id
        self._store = store
        self._client = client
        self._places = places
        self._now = now
        self._patience = patience
        self._rows = Rows(store, batch_id)
        self._asking: asyncio.Task[None] | None = None

    def stop_asking(self) -> None:
        """End the calls that run: the batch is cancelled, or its time is over."""
        if self._asking is not None:
            self._asking.cancel()

    async def run(self) -> None:
        """Bring the batch to its end, unless another process is at it. A disk that fails is waited out.

        Raises OSError when the batch cannot be locked.
        """
        patience = self._patience()
        with self._locked() as ours:
            while ours:
                try:
                    await self._go_on()
                except (OSError, sqlite3.Error) as error:
                    logger.warning("batch %s waits: %s", self._id, error)
                    if await patience.wait():
                        continue
                return

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
        source = self._store.folder / "contents" / ("" if batch is None else batch.input_file_id)
        if batch is not None and batch.status == "validating":
            batch = await self._begin(source)
        if batch is not None and batch.status == "in_progress":
            await self._ask(source, batch)
            batch = await self._store(Store.change_batch, self._id, self._asked)
        if batch is not None and batch.status in UNFINISHED:  # or another process had just ended it
            await self._end(source, batch, _ENDS.get(batch.status, "expired"))
        (self._store.folder / "locks" / self._id).unlink(missing_ok=True)

    async def _begin(self, source: Path) -> Batch:
        """Count the calls; a file without any fails the batch."""
        try:
            total = await asyncio.to_thread(_count_lines, source)
        except FileNotFoundError:
            code, message, total = "invalid_file", "The input file is not there any more.", 0
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
        """Ask for what has no row, until all is answered, its time is over, or `stop_asking`."""
        asking = self._asking = asyncio.create_task(self._ask_all(source, batch.endpoint))
        try:
            await asyncio.wait([asking], timeout=max(0.0, batch.expires_at - self._now()))
        finally:
            self._asking = None
            asking.cancel()
            await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()

    async def _ask_all(self, source: Path, endpoint: str) -> None:
        try:
            async with asyncio.TaskGroup() as group, aclosing(self._lines(source)) as lines:
                async for line in lines:
                    call = _checked(line, endpoint)
                    taken = await self._places.take(replies_to(call) if isinstance(call, BatchLine) else 1)
                    # A task that is cancelled before it begins runs nothing of itself.
                    group.create_task(self._answer(call)).add_done_callback(
                        lambda _, taken=taken: self._places.give_back(taken)  # type: ignore[misc]
                    )
        except ExceptionGroup as errors:
            raise _first(errors) from None

    async def _lines(self, source: Path) -> AsyncGenerator[BatchLine | BadLine]:
        """The lines that have no row."""
        done = await self._store(Store.lines_done, self._id)
        lines = (line for line in read_lines(source) if line.number not in done)
        while chunk := await asyncio.to_thread(lambda: list(islice(lines, CHUNK))):
            for line in chunk:
                yield line

    async def _answer(self, line: BatchLine | BadLine) -> None:
        """Make a line's call, and keep its row."""
        if isinstance(line, BadLine):
            row = bad_row(line)
        else:
            row = reply_row(line, await self._client.post(line.url, line.body))
        await self._rows.put((line.number, is_error(row), orjson.dumps(row)))

    async def _end(self, source: Path, batch: Batch, status: Status) -> None:
        """Give the lines that are left their rows, and write all rows to files."""
        if status in _LEFT and batch.total:
            left: list[Row] = []
            async with aclosing(self._lines(source)) as lines:
                async for line in lines:
                    row = bad_row(BadLine(line.number, line.custom_id, *_LEFT[status]))
                    left.append((line.number, True, orjson.dumps(row)))
            await self._store(Store.put_rows, self._id, left)
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


def _checked(line: BatchLine | BadLine, endpoint: str) -> BatchLine | BadLine:
    if isinstance(line, BadLine) or line.url == endpoint:
        return line
    message = f"url must be the batch's endpoint, {endpoint}."
    return BadLine(line.number, line.custom_id, "mismatched_url", message, "url")


def _count_lines(source: Path) -> int:
    with open(source, "rb") as file:
        return sum(1 for _ in raw_lines(file, MAX_LINE_BYTES))


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    first: Exception = errors
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first
