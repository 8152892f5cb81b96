"""Where files and batches are kept: their contents as files in a folder, all else in an SQLite database beside them.

Any number of processes may share a folder. Every method is one transaction that is on the disk when it returns.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, replace
from pathlib import Path

from andes_jax.jobs.journal import sync_folder
from server.batches.objects import UNFINISHED, Batch, StoredFile

BUSY_S = 30.0  # that another process may hold the database
LEFT_S = 24 * 3600.0  # after which what no name is kept of is nobody's
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, filename TEXT NOT NULL, bytes INTEGER NOT NULL,
    purpose TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER
);
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, model TEXT NOT NULL, status TEXT NOT NULL,
    input_file_id TEXT NOT NULL, batch BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS batches_by_status ON batches (status);
CREATE TABLE IF NOT EXISTS rows (
    batch_id TEXT NOT NULL, line INTEGER NOT NULL, failed INTEGER NOT NULL, row BLOB NOT NULL,
    PRIMARY KEY (batch_id, line)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS rows_by_kind ON rows (batch_id, failed);
"""
_FILE = "id, filename, bytes, purpose, created_at, expires_at"


class Store:
    """One connection, to be used from one thread."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError and sqlite3.Error for a folder that cannot be used."""
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("contents", "locks"):
            (folder / name).mkdir(exist_ok=True)
        self._database = sqlite3.connect(database_of(folder), timeout=BUSY_S, autocommit=True)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def content(self, file_id: str) -> Path:
        """Where a file's content is."""
        return self.folder / "contents" / file_id

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:  # a full disk ends it by itself
                database.execute("ROLLBACK")
            raise

    def _page(self, table: str, after: str | None, newest_first: bool) -> tuple[str, list[object]]:
        """The condition for what follows, with its values."""
        if after is None:
            return "TRUE", []
        found = self._database.execute(f"SELECT number FROM {table} WHERE id = ?", (after,)).fetchone()
        if found is None:
            raise KeyError(after)
        return f"number {'<' if newest_first else '>'} ?", [found[0]]

    # Files

    def add_file(self, file: StoredFile, draft: Path) -> None:
        """Keep a file whose content is in `draft`, on the same file system; that is moved."""
        with open(draft, "rb") as content:
            os.fsync(content.fileno())
        os.replace(draft, self.content(file.id))
        sync_folder(self.folder / "contents")
        self._insert_file(self._database, file)

    def _insert_file(self, database: sqlite3.Connection, file: StoredFile) -> None:
        database.execute(f"INSERT INTO files ({_FILE}) VALUES (?, ?, ?, ?, ?, ?)", astuple(file))

    def file(self, file_id: str) -> StoredFile | None:
        """The file with that id."""
        row = self._database.execute(f"SELECT {_FILE} FROM files WHERE id = ?", (file_id,)).fetchone()
        return None if row is None else StoredFile(*row)

    def files(self, *, after: str | None, limit: int, newest_first: bool, purpose: str | None) -> list[StoredFile]:
        """At most `limit` files that follow the one with the id `after`. Raises KeyError where that is not there."""
        where, values = self._page("files", after, newest_first)
        if purpose is not None:
            where, values = f"{where} AND purpose = ?", [*values, purpose]
        order = "DESC" if newest_first else "ASC"
        found = self._database.execute(
            f"SELECT {_FILE} FROM files WHERE {where} ORDER BY number {order} LIMIT ?", [*values, limit]
        )
        return [StoredFile(*row) for row in found]

    def delete_file(self, file_id: str) -> str | None:
        """Forget a file; the id of the unfinished batch that needs it, and then it stays."""
        with self._transaction() as database:
            user = database.execute(
                f"SELECT id FROM batches WHERE input_file_id = ? AND status IN ({_marks(UNFINISHED)})",
                (file_id, *UNFINISHED),
            ).fetchone()
            if user is not None:
                return str(user[0])
            database.execute("DELETE FROM files WHERE id = ?", (file_id,))
        self.content(file_id).unlink(missing_ok=True)
        return None

    def sweep(self, now: float) -> None:
        """Remove what processes that were killed have left half done, long after nobody can be at it."""
        for path in [*self.folder.glob("*.draft"), *(self.folder / "contents").iterdir()]:
            with suppress(FileNotFoundError):
                old = path.stat().st_mtime < now - LEFT_S
                if old and (path.parent == self.folder or self.file(path.name) is None):
                    path.unlink()

    def delete_expired(self, now: int) -> None:
        """Forget the files whose time has come."""
        found = self._database.execute("SELECT id FROM files WHERE expires_at <= ?", (now,)).fetchall()
        for (file_id,) in found:
            self.delete_file(file_id)

    # Batches

    def add_batch(self, batch: Batch) -> bool:
        """Keep a new batch; False where its input is not there."""
        added = self._database.execute(
            "INSERT INTO batches (id, model, status, input_file_id, batch) "
            "SELECT ?, ?, ?, id, ? FROM files WHERE id = ?",
            (batch.id, batch.model, batch.status, batch.pack(), batch.input_file_id),
        )
        return added.rowcount == 1

    def batch(self, batch_id: str) -> Batch | None:
        """The batch with that id, with what is done of it."""
        row = self._database.execute("SELECT batch FROM batches WHERE id = ?", (batch_id,)).fetchone()
        return None if row is None else self._counted(Batch.unpack(row[0]))

    def batches(self, *, after: str | None, limit: int) -> list[Batch]:
        """At most `limit` batches, the newest first, that follow the one with the id `after`. Raises KeyError."""
        where, values = self._page("batches", after, newest_first=True)
        found = self._database.execute(
            f"SELECT batch FROM batches WHERE {where} ORDER BY number DESC LIMIT ?", [*values, limit]
        )
        return [self._counted(Batch.unpack(packed)) for (packed,) in found.fetchall()]

    def unfinished(self, model: str) -> list[Batch]:
        """Batches of a model that are not at their end, the oldest first."""
        found = self._database.execute(
            f"SELECT batch FROM batches WHERE status IN ({_marks(UNFINISHED)}) AND model = ? ORDER BY number",
            (*UNFINISHED, model),
        )
        return [Batch.unpack(packed) for (packed,) in found]

    def change_batch(self, batch_id: str, change: Callable[[Batch], Batch]) -> Batch:
        """Put a changed batch in a batch's place. Raises KeyError."""
        with self._transaction() as database:
            row = database.execute("SELECT batch FROM batches WHERE id = ?", (batch_id,)).fetchone()
            if row is None:
                raise KeyError(batch_id)
            batch = change(Batch.unpack(row[0]))
            self._update(database, batch)
        return self._counted(batch)

    def _update(self, database: sqlite3.Connection, batch: Batch) -> None:
        database.execute(
            "UPDATE batches SET status = ?, batch = ? WHERE id = ?", (batch.status, batch.pack(), batch.id)
        )

    def _counted(self, batch: Batch) -> Batch:
        if batch.status not in UNFINISHED:
            return batch
        counts = self._database.execute(
            "SELECT failed, COUNT(*) FROM rows WHERE batch_id = ? GROUP BY failed", (batch.id,)
        ).fetchall()
        done = dict(counts)
        return replace(batch, completed=done.get(0, 0), failed=done.get(1, 0))

    # Rows

    def put_rows(self, batch_id: str, rows: Iterable[tuple[int, bool, bytes]]) -> None:
        """Keep rows of a batch: the line they are of, whether they are errors, and themselves."""
        with self._transaction() as database:
            database.executemany(
                "INSERT OR REPLACE INTO rows (batch_id, line, failed, row) VALUES (?, ?, ?, ?)",
                [(batch_id, *row) for row in rows],
            )

    def lines_done(self, batch_id: str) -> set[int]:
        """The lines of a batch that have a row."""
        found = self._database.execute("SELECT line FROM rows WHERE batch_id = ?", (batch_id,))
        return {line for (line,) in found}

    def write_rows(self, batch_id: str, *, failed: bool, draft: Path) -> int:
        """Write a batch's rows of one kind to a file, in the order of the lines; how many bytes."""
        found = self._database.execute(
            "SELECT row FROM rows WHERE batch_id = ? AND failed = ? ORDER BY line", (batch_id, failed)
        )
        with open(draft, "wb") as file:
            for (row,) in found:
                file.write(row + b"\n")
            return file.tell()

    def end_batch(self, batch: Batch, outputs: Iterable[tuple[StoredFile, Path]]) -> None:
        """Keep an ended batch with the files that hold its rows; the rows themselves are forgotten."""
        outputs = list(outputs)
        for file, draft in outputs:
            with open(draft, "rb") as content:
                os.fsync(content.fileno())
            os.replace(draft, self.content(file.id))
        sync_folder(self.folder / "contents")
        with self._transaction() as database:
            for file, _ in outputs:
                self._insert_file(database, file)
            self._update(database, self._counted_at_end(batch))
            database.execute("DELETE FROM rows WHERE batch_id = ?", (batch.id,))

    def _counted_at_end(self, batch: Batch) -> Batch:
        counted = self._counted(replace(batch, status="finalizing"))
        return replace(batch, completed=counted.completed, failed=counted.failed)


def database_of(folder: Path) -> Path:
    """The database of a folder."""
    return folder / "batches.sqlite3"


def _marks(values: tuple[object, ...]) -> str:
    return ", ".join("?" * len(values))
