"""The store of an event loop: opened late, asked in turn, and never in the loop's way."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time

import pytest

from server.batches.shared import SharedStore
from server.batches.store import Store, database_of
from tests.server.batches.parts import NOW, mk_batch


async def test_it_is_made_when_it_is_first_used(tmp_path):
    shared = SharedStore(tmp_path / "data")
    assert not shared.exists and not (tmp_path / "data").exists()
    assert await shared(Store.batch, "batch_1") is None
    assert shared.exists and database_of(tmp_path / "data").exists()
    other = SharedStore(tmp_path / "data")
    assert other.exists
    for each in (shared, other):
        each.close()


async def test_whatever_it_does_the_loop_goes_on(tmp_path):
    shared = SharedStore(tmp_path)
    asked = asyncio.create_task(shared(lambda store: (time.sleep(0.2), threading.current_thread().name)))
    after = asyncio.create_task(shared(Store.batch, "batch_1"))
    began = time.monotonic()
    await asyncio.sleep(0.01)
    assert time.monotonic() - began < 0.1 and not after.done()
    assert (await asked)[1].startswith("batch-store") and await after is None
    shared.close()


async def test_a_folder_that_cannot_be_had_is_tried_again(tmp_path):
    folder = tmp_path / "data"
    folder.write_text("a file")
    shared = SharedStore(folder)
    with pytest.raises(OSError):
        await shared(Store.batch, "batch_1")
    folder.unlink()
    assert await shared(Store.batch, "batch_1") is None
    shared.close()


async def test_what_has_begun_is_done_before_it_closes(tmp_path):
    shared = SharedStore(tmp_path)
    await shared(Store.batch, "x")
    with pytest.raises(KeyError):
        await shared(Store.change_batch, "x", lambda batch: batch)
    with pytest.raises(sqlite3.IntegrityError):
        await shared(lambda store: store._database.execute("INSERT INTO files (id) VALUES ('x')"))
    last = asyncio.create_task(shared(Store.add_batch, mk_batch(created_at=NOW)))
    await asyncio.sleep(0)
    shared.close()
    assert await last is False
