"""One batch's work: every line one row, wherever it is cut off, whatever is wrong with a line or with the disk."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import math
import os
import sqlite3

import pytest

from andes_jax.jobs.waiting import Patience
from server.batches.places import Places
from server.batches.shared import SharedStore
from server.batches.store import Store
from server.batches.work import BatchWork
from tests.server.batches.parts import (
    NOW,
    Echo,
    add_batch,
    kept_batch,
    line,
    lines,
    mk_batch,
    names,
    rows_of,
    until,
)


class Bench:
    """A folder with one batch, and what works on it."""

    def __init__(self, folder, client=None, places=4):
        self.folder = folder
        self.store = SharedStore(folder)
        self.client = client or Echo()
        self.places = Places(places)
        self.total = places
        self.now = float(NOW)
        self.waits: list[float] = []

    def work(self) -> BatchWork:
        return BatchWork("batch_1", self.store, self.client, self.places, lambda: self.now, self._patience)

    def _patience(self) -> Patience:
        async def sleep(wait_s):
            self.waits.append(wait_s)
            await asyncio.sleep(0)

        return Patience(math.inf, sleep=sleep)

    async def change(self, change):
        return await self.store(Store.change_batch, "batch_1", change)

    def assert_given_back(self):
        assert self.places.free == self.total, "places are lost"
        assert not list(self.folder.glob("*.draft")) and not list((self.folder / "locks").iterdir())


@pytest.fixture
async def bench(tmp_path):
    made = []

    def make(content=None, *arguments, **keywords):
        if content is not None:
            add_batch(tmp_path, content)
        made.append(Bench(tmp_path, *arguments, **keywords))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


async def test_rows_come_in_the_order_of_their_lines_however_replies_come(bench):
    at = bench(lines(30))
    at.client.turns = lambda name: 40 - int(name[1:]) % 7
    await at.work().run()
    batch = kept_batch(at.folder)
    assert (batch.status, batch.total, batch.completed, batch.failed) == ("completed", 30, 30, 0)
    assert batch.in_progress_at == batch.finalizing_at == batch.completed_at == NOW and batch.error_file_id is None
    rows = rows_of(at.folder, batch)
    assert names(rows) == [f"r{number}" for number in range(1, 31)] == sorted(at.client.asked, key=lambda n: int(n[1:]))
    assert all(row["response"]["body"] == {"text": row["custom_id"]} for row in rows)
    assert len({row["id"] for row in rows}) == 30 and at.client.most_running <= 4
    at.assert_given_back()


BAD = [
    (b"{", None, "invalid_json_line"),
    (b"[]", None, "invalid_json_line"),
    (b'{"custom_id": "a", "method": "POST", "url": "/v1/completions"}', "a", "invalid_body"),
    (b'{"custom_id": "b", "method": "GET", "url": "/v1/completions", "body": {}}', "b", "invalid_method"),
    (b'{"custom_id": "c", "method": "POST", "url": "/v1/embeddings", "body": {}}', "c", "invalid_url"),
    (line("d", url="/v1/chat/completions"), "d", "mismatched_url"),
    (line("e", stream=True), "e", "invalid_body"),
    (line("r1"), "r1", "duplicate_custom_id"),
    (b"\xff\xfe", None, "invalid_json_line"),
]


async def test_bad_lines_are_rows_among_the_errors_and_the_others_go_on(bench):
    content = lines(2) + b"\n\n".join(bad.rstrip(b"\n") for bad, _, _ in BAD) + b"\n" + line("refused") + line("last")
    at = bench(content, Echo(lambda name: 400 if name == "refused" else 200))
    await at.work().run()
    batch = kept_batch(at.folder)
    assert (batch.status, batch.total, batch.completed, batch.failed) == ("completed", len(BAD) + 4, 3, len(BAD) + 1)
    assert names(rows_of(at.folder, batch)) == ["r1", "r2", "last"]
    *bad, refused = rows_of(at.folder, batch, "error_file_id")
    assert [(row["custom_id"], row["error"]["code"]) for row in bad] == [(name, code) for _, name, code in BAD]
    assert all(row["response"] is None for row in bad)
    assert (refused["response"]["status_code"], refused["error"]) == (400, None)
    at.assert_given_back()


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
async def test_a_file_without_lines_fails_the_batch(bench, content):
    at = bench(content)
    await at.work().run()
    batch = kept_batch(at.folder)
    assert (batch.status, batch.failed_at, batch.errors[0]["code"]) == ("failed", NOW, "empty_file")
    at.assert_given_back()


async def test_a_file_that_is_gone_fails_the_batch(bench):
    at = bench(lines(2))
    (at.folder / "contents" / "file-batch_1").unlink()
    await at.work().run()
    assert kept_batch(at.folder).errors[0]["code"] == "invalid_file"
    at.assert_given_back()


async def test_only_lines_without_a_row_are_asked_for(bench):
    at = bench(lines(6))
    await at.store(Store.put_rows, "batch_1", [(2, False, b'{"custom_id":"r2"}'), (5, True, b'{"custom_id":"r5"}')])
    await at.work().run()
    batch = kept_batch(at.folder)
    assert sorted(at.client.asked) == ["r1", "r3", "r4", "r6"] and (batch.completed, batch.failed) == (5, 1)
    assert names(rows_of(at.folder, batch)) == ["r1", "r2", "r3", "r4", "r6"]


async def test_many_replies_to_one_call_take_as_many_places(bench):
    at = bench(lines(3, n=3) + line("all", n=100) + line("one"), places=7)
    at.client.may.clear()
    working = asyncio.create_task(at.work().run())
    await until(lambda: at.client.running == 2)
    await asyncio.sleep(0.02)
    assert at.client.running == 2 and at.places.free == 1
    at.client.may.set()
    await working
    assert kept_batch(at.folder).completed == 5
    at.assert_given_back()


async def test_a_cancelled_batch_keeps_what_it_has_and_says_so_of_the_rest(bench):
    at = bench(lines(300))
    work = at.work()
    working = asyncio.create_task(work.run())
    await until(lambda: len(at.client.answered) >= 3)
    at.client.may.clear()
    await until(lambda: at.client.running == 4)  # all places, so what was answered is kept
    done = len(at.client.answered)
    await at.change(lambda batch: batch.become("cancelling", NOW))
    work.stop_asking()
    await working
    assert at.client.running == 0, "calls go on"
    batch = kept_batch(at.folder)
    assert (batch.status, batch.completed, batch.failed) == ("cancelled", done, 300 - done)
    output, left = rows_of(at.folder, batch), rows_of(at.folder, batch, "error_file_id")
    assert sorted(names(output) + names(left)) == sorted(f"r{number}" for number in range(1, 301))
    assert {row["error"]["code"] for row in left} == {"batch_cancelled"}
    at.assert_given_back()


async def test_a_batch_that_is_cancelled_before_it_begins_asks_nothing(bench):
    at = bench(lines(3))
    await at.change(lambda batch: batch.become("cancelling", NOW))
    await at.work().run()
    batch = kept_batch(at.folder)
    assert (batch.status, batch.total, batch.output_file_id, batch.error_file_id) == ("cancelled", 0, None, None)
    assert at.client.asked == []
    at.assert_given_back()


async def test_an_expired_batch_keeps_what_it_has(bench):
    at = bench(lines(5))
    await at.store(Store.put_rows, "batch_1", [(3, False, b'{"custom_id":"r3"}')])
    await at.change(lambda batch: batch.become("in_progress", NOW, total=5))
    at.now += 86400
    await at.work().run()
    batch = kept_batch(at.folder)
    assert (batch.status, batch.expired_at, batch.completed, batch.failed) == ("expired", NOW + 86400, 1, 4)
    assert names(rows_of(at.folder, batch)) == ["r3"] and at.client.answered == []
    assert {row["error"]["code"] for row in rows_of(at.folder, batch, "error_file_id")} == {"batch_expired"}
    at.assert_given_back()


async def test_time_runs_out_in_the_middle(bench):
    at = bench(lines(5))
    await at.change(lambda batch: mk_batch(input_file_id="file-batch_1", expires_at=NOW))
    at.now = NOW - 0.05
    at.client.may.clear()
    working = asyncio.create_task(at.work().run())
    await until(lambda: at.client.running == 4)
    at.now = NOW
    await working
    assert (kept_batch(at.folder).status, kept_batch(at.folder).failed) == ("expired", 5)
    at.assert_given_back()


async def test_what_another_process_works_on_is_left_alone(bench):
    at = bench(lines(3))
    await at.store(Store.batch, "batch_1")
    other = os.open(at.folder / "locks" / "batch_1", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    await at.work().run()
    assert kept_batch(at.folder).status == "validating" and at.client.asked == []
    os.close(other)  # as the end of a process does
    await at.work().run()
    assert kept_batch(at.folder).status == "completed"


@pytest.mark.parametrize("status", ["completed", "cancelled", "expired", "failed"])
async def test_a_batch_that_another_process_has_just_ended_stays_as_it_is(bench, status):
    at = bench(lines(3))
    ended = await at.change(lambda batch: batch.become(status, NOW - 5, total=3))
    await at.work().run()
    assert kept_batch(at.folder) == ended and at.client.asked == []
    at.assert_given_back()


async def test_a_full_disk_is_waited_out(bench, monkeypatch):
    at = bench(lines(12))
    put, write, faults = Store.put_rows, Store.write_rows, []

    def failing(method, error):
        def run(self, *arguments, **keywords):
            if faults.count(error) < 2:
                faults.append(error)
                raise error
            return method(self, *arguments, **keywords)

        return run

    monkeypatch.setattr(Store, "put_rows", failing(put, sqlite3.OperationalError("database or disk is full")))
    monkeypatch.setattr(Store, "write_rows", failing(write, OSError(errno.ENOSPC, "No space left on device")))
    await at.work().run()
    assert len(faults) == 4 and 3 <= len(at.waits) <= 4  # two may fail at once
    assert names(rows_of(at.folder, kept_batch(at.folder))) == [f"r{number}" for number in range(1, 13)]
    at.assert_given_back()


async def test_output_expires_when_the_batch_says_so(bench):
    at = bench(lines(1))
    await at.change(lambda batch: mk_batch(input_file_id="file-batch_1", output_seconds=3600))
    await at.work().run()
    store = Store(at.folder)
    file = store.file(kept_batch(at.folder).output_file_id)
    assert (file.purpose, file.expires_at, file.filename) == ("batch_output", NOW + 3600, "batch_1_output.jsonl")
    store.close()


async def test_memory_does_not_grow_with_the_file(bench):
    """Lines are read as their turn comes."""
    at = bench(lines(5000), places=2)
    at.client.may.clear()
    working = asyncio.create_task(at.work().run())
    await until(lambda: at.client.running == 2)
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks()) < 12 and len(at.client.asked) == 2
    working.cancel()
    await asyncio.wait([working])
    assert at.client.running == 0 and at.places.free == 2
