"""Files and batches on the disk: pages, counts, deletion, several processes, and ends in the middle of anything."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from server.batches.objects import StoredFile
from server.batches.store import LEFT_S, Store, database_of
from tests.server.batches.parts import MODEL, NOW, add_file, mk_batch

ROOT = Path(__file__).parents[3]


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "data")
    yield made
    made.close()


def pages(ask, limit):
    """All ids, page after page."""
    after, found = None, []
    while page := [each.id for each in ask(after, limit)]:
        assert len(page) <= limit
        found, after = found + page, page[-1]
    return found


def test_files_come_back_as_they_were(store):
    file = add_file(store, b"\x00\xff\n", filename="名\u200b\x00.jsonl", created_at=NOW, expires_at=NOW + 9)
    assert store.file(file.id) == file and store.content(file.id).read_bytes() == b"\x00\xff\n"
    assert store.file("file-other") is None
    assert [path.name for path in store.folder.glob("*.draft")] == []
    assert (store.folder.stat().st_mode & 0o777) == 0o700  # what users upload is nobody else's


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("newest_first", [True, False])
def test_files_come_in_pages(store, limit, newest_first):
    ids = [add_file(store, name=f"file-{number}", created_at=NOW).id for number in range(7)]
    add_file(store, name="file-out", created_at=NOW, purpose="batch_output")

    def ask(after, limit):
        return store.files(after=after, limit=limit, newest_first=newest_first, purpose="batch")

    assert pages(ask, limit) == (ids[::-1] if newest_first else ids)
    assert len(store.files(after=None, limit=100, newest_first=True, purpose=None)) == 8


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_batches_come_in_pages_the_newest_first(store, limit):
    add_file(store, created_at=NOW)
    for number in range(5):
        assert store.add_batch(mk_batch(f"batch_{number}"))
    assert pages(lambda after, limit: store.batches(after=after, limit=limit), limit) == [
        f"batch_{number}" for number in reversed(range(5))
    ]


def test_a_page_after_what_is_not_there_is_an_error(store):
    with pytest.raises(KeyError):
        store.batches(after="batch_no", limit=2)
    with pytest.raises(KeyError):
        store.files(after="file-no", limit=2, newest_first=True, purpose=None)


def test_a_batch_needs_its_input_and_keeps_it(store):
    assert not store.add_batch(mk_batch()) and store.batch("batch_1") is None
    add_file(store, b"x", created_at=NOW)
    assert store.add_batch(mk_batch())
    assert store.delete_file("file-in") == "batch_1" and store.content("file-in").exists()
    store.change_batch("batch_1", lambda batch: batch.become("failed", NOW))
    assert store.delete_file("file-in") is None
    assert store.file("file-in") is None and not store.content("file-in").exists()
    assert store.delete_file("file-in") is None  # again changes nothing


def test_files_are_gone_when_their_time_has_come_unless_a_batch_needs_them(store):
    for name, expires_at in (("file-in", NOW), ("file-now", NOW), ("file-later", NOW + 1), ("file-never", None)):
        add_file(store, name=name, created_at=NOW - 9, expires_at=expires_at)
    store.add_batch(mk_batch())
    store.delete_expired(NOW)
    assert [name for name in ("file-in", "file-now", "file-later", "file-never") if store.file(name)] == [
        "file-in",
        "file-later",
        "file-never",
    ]
    store.change_batch("batch_1", lambda batch: batch.become("cancelled", NOW))
    store.delete_expired(NOW)
    assert store.file("file-in") is None


def test_only_unfinished_batches_of_a_model_are_to_be_worked_on(store):
    add_file(store, created_at=NOW)
    for number, status in enumerate(("validating", "in_progress", "finalizing", "cancelling", "completed", "expired")):
        store.add_batch(mk_batch(f"batch_{number}", status=status))
    store.add_batch(mk_batch("batch_other", model="another"))
    assert [batch.id for batch in store.unfinished(MODEL)] == ["batch_0", "batch_1", "batch_2", "batch_3"]


def test_counts_are_those_of_the_rows_and_last_beyond_them(store):
    add_file(store, created_at=NOW)
    store.add_batch(mk_batch())
    store.change_batch("batch_1", lambda batch: batch.become("in_progress", NOW, total=3))
    store.put_rows("batch_1", [(2, False, b"b"), (1, False, b"a")])
    store.put_rows("batch_1", [(2, False, b"b"), (3, True, b"c")])  # again is not twice
    found = store.batch("batch_1")
    assert (found.completed, found.failed, found.total) == (2, 1, 3) and store.batches(after=None, limit=1) == [found]
    assert store.lines_done("batch_1") == {1, 2, 3}
    drafts = [store.folder / "out.draft", store.folder / "err.draft"]
    assert store.write_rows("batch_1", failed=False, draft=drafts[0]) == 4
    assert store.write_rows("batch_1", failed=True, draft=drafts[1]) == 2
    assert [draft.read_bytes() for draft in drafts] == [b"a\nb\n", b"c\n"]
    output = StoredFile("file-out", "out.jsonl", 4, "batch_output", NOW)
    store.end_batch(found.become("completed", NOW + 1), [(output, drafts[0])])
    found = store.batch("batch_1")
    assert (found.status, found.completed, found.failed) == ("completed", 2, 1) and not store.lines_done("batch_1")
    assert store.file("file-out") == output and store.content("file-out").read_bytes() == b"a\nb\n"


def test_a_change_that_fails_changes_nothing(store):
    add_file(store, created_at=NOW)
    store.add_batch(mk_batch())
    with pytest.raises(ZeroDivisionError):
        store.change_batch("batch_1", lambda batch: batch.become("failed", 1 // 0))
    with pytest.raises(KeyError):
        store.change_batch("batch_2", lambda batch: batch)

    def broken():
        yield (1, False, b"a")
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        store.put_rows("batch_1", broken())
    assert store.lines_done("batch_1") == set() and store.batch("batch_1").status == "validating"
    store.put_rows("batch_1", [(1, False, b"a")])  # and the store still works


def test_a_full_disk_is_an_error_that_leaves_the_store_usable(store):
    add_file(store, created_at=NOW)
    store.add_batch(mk_batch())
    database = store._database
    pages_now = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages_now}")
    with pytest.raises(sqlite3.OperationalError) as raised:
        store.put_rows("batch_1", [(number, False, b"x" * 4000) for number in range(50)])
    assert raised.value.sqlite_errorcode == sqlite3.SQLITE_FULL
    assert not database.in_transaction and store.lines_done("batch_1") == set()
    database.execute("PRAGMA max_page_count = 1000000")
    store.put_rows("batch_1", [(number, False, b"x" * 4000) for number in range(50)])
    assert len(store.lines_done("batch_1")) == 50


def test_what_killed_processes_left_is_swept_later(store):
    add_file(store, b"kept", created_at=NOW)
    now = time.time()
    draft, orphan, fresh = store.folder / "file-a.draft", store.content("file-b"), store.folder / "file-c.draft"
    for path in (draft, orphan, fresh):
        path.write_bytes(b"x")
    for path in (draft, orphan, store.content("file-in")):
        os.utime(path, (now - LEFT_S - 9,) * 2)
    store.sweep(now)
    assert [path.exists() for path in (draft, orphan, fresh, store.content("file-in"))] == [False, False, True, True]


def _add_rows(folder: str, start, first: int) -> None:
    start.wait(10)
    store = Store(Path(folder))
    for number in range(first, first + 40):
        store.put_rows("batch_1", [(number, False, b"%d" % number)])
        store.change_batch("batch_1", lambda batch: batch.become("in_progress", NOW, total=batch.total + 1))
    store.close()


def test_processes_share_a_folder_from_its_first_moment(tmp_path):
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    processes = [context.Process(target=_make_folder, args=(str(tmp_path / "d"), start, n)) for n in range(3)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    store = Store(tmp_path / "d")
    assert store.batch("batch_1").total == 120 and store.lines_done("batch_1") == set(range(120))
    store.close()


def _make_folder(folder: str, start, number: int) -> None:
    start.wait(10)
    store = Store(Path(folder))
    store._database.execute("INSERT OR IGNORE INTO files VALUES (NULL, 'file-in', 'x', 0, 'batch', 1, NULL)")
    with store._transaction() as database:
        if database.execute("SELECT 1 FROM batches").fetchone() is None:
            store.add_batch(mk_batch())
    store.close()
    _add_rows(folder, start, number * 40)


WRITER = """
import sys
from pathlib import Path
from server.batches.store import Store
from tests.server.batches.parts import NOW, add_file, mk_batch
store = Store(Path(sys.argv[1]))
add_file(store, b"x", created_at=NOW)
store.add_batch(mk_batch())
number = 0
while True:
    number += 2
    store.put_rows("batch_1", [(number, False, b"x" * 9000), (number + 1, True, b"y" * 9000)])
    add_file(store, b"content", f"file-{number}", created_at=NOW)
    print(number, flush=True)
"""


def test_what_was_kept_is_there_after_kill_9_and_nothing_is_half_there(tmp_path):
    for attempt, lines in enumerate((1, 4, 11)):
        folder = tmp_path / f"{attempt}"
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, cwd=ROOT)
        with writer:
            *_, last = itertools.islice(writer.stdout, lines)
            time.sleep(0.003 * attempt)
            writer.kill()
        store = Store(folder)
        assert store._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        done = store.lines_done("batch_1")
        assert done >= set(range(2, int(last) + 2)), "what was kept is lost"
        assert all((number ^ 1) in done for number in done), "half a transaction"
        for file in store.files(after=None, limit=1000, newest_first=True, purpose=None):
            assert store.content(file.id).stat().st_size == file.bytes
        store.put_rows("batch_1", [(1, False, b"on it goes")])
        store.close()


def test_a_database_that_is_none_is_an_error(tmp_path):
    database_of(tmp_path).write_bytes(b"this is no database" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        Store(tmp_path)
