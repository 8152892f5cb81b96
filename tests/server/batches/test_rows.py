"""Rows are kept when `put` returns, few transactions for many of them."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from server.batches.rows import Rows


class Slow:
    """A store that takes its time."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.fails = False

    async def __call__(self, method, batch_id, rows):
        await asyncio.sleep(0.005)
        if self.fails:
            raise sqlite3.OperationalError("disk is full")
        self.written.append([line for line, _, _ in rows])


async def test_those_that_come_meanwhile_are_written_together():
    store = Slow()
    rows = Rows(store, "batch_1")

    async def put(line):
        await rows.put((line, False, b""))
        assert any(line in each for each in store.written)

    await asyncio.gather(*(put(line) for line in range(100)))
    assert store.written == [[0], list(range(1, 100))] or len(store.written) <= 2
    assert sorted(sum(store.written, [])) == list(range(100))


async def test_a_disk_that_fails_is_told():
    store = Slow()
    store.fails = True
    with pytest.raises(sqlite3.OperationalError):
        await Rows(store, "batch_1").put((1, False, b""))
