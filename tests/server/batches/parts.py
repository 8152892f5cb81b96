"""Stores with batches in them, and a client that answers a batch's calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from andes_jax.jobs.client import Reply
from server.batches.objects import Batch, StoredFile
from server.batches.store import Store

MODEL = "fake/bytes"
URL = "/v1/completions"
NOW = 1_800_000_000


def line(name: str, url: str = URL, **body: Any) -> bytes:
    """A line that asks for a completion of its own name."""
    call = {"custom_id": name, "method": "POST", "url": url, "body": {"prompt": name, **body}}
    return json.dumps(call).encode() + b"\n"


def lines(count: int, **body: Any) -> bytes:
    """Lines r1, r2 and so on."""
    return b"".join(line(f"r{number}", **body) for number in range(1, count + 1))


def add_file(store: Store, content: bytes = b"", name: str = "file-in", **fields: Any) -> StoredFile:
    """Keep a file."""
    draft = store.folder / f"{name}.draft"
    draft.write_bytes(content)
    file = StoredFile(**{"id": name, "filename": f"{name}.jsonl", "bytes": len(content), "purpose": "batch"} | fields)
    store.add_file(file, draft)
    return file


def mk_batch(name: str = "batch_1", **fields: Any) -> Batch:
    """A new batch of the file file-in."""
    usual: dict[str, Any] = {"model": MODEL, "endpoint": URL, "input_file_id": "file-in", "completion_window": "24h"}
    return Batch(**{"id": name, "created_at": NOW, "expires_at": NOW + 86400} | usual | fields)


def add_batch(folder: Path, content: bytes, name: str = "batch_1", **fields: Any) -> Batch:
    """Keep a new batch of this content in a folder."""
    store = Store(folder)
    try:
        add_file(store, content, f"file-{name}", created_at=NOW)
        batch = mk_batch(name, input_file_id=f"file-{name}", **fields)
        assert store.add_batch(batch)
        return batch
    finally:
        store.close()


def kept_batch(folder: Path, name: str = "batch_1") -> Batch:
    """The batch as it now is."""
    store = Store(folder)
    try:
        batch = store.batch(name)
        assert batch is not None
        return batch
    finally:
        store.close()


def rows_of(folder: Path, batch: Batch, name: str = "output_file_id") -> list[dict[str, Any]]:
    """The rows of a batch's file."""
    file_id = getattr(batch, name)
    if file_id is None:
        return []
    return [json.loads(row) for row in (folder / "contents" / file_id).read_bytes().splitlines()]


def names(rows: Iterable[dict[str, Any]]) -> list[str | None]:
    """Whom the rows are of, in their order."""
    return [row["custom_id"] for row in rows]


class Echo:
    """A client: answers every call with its prompt once it may, and remembers who was asked for."""

    def __init__(self, status: Callable[[str], int] = lambda name: 200) -> None:
        self._status = status
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.running = self.most_running = 0
        self.may = asyncio.Event()
        self.may.set()
        self.turns: Callable[[str], int] = lambda name: 1  # of the loop that a reply takes

    async def post(self, path: str, body: dict[str, Any]) -> Reply:
        name = body["prompt"]
        self.asked.append(name)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.may.wait()
            for _ in range(self.turns(name)):
                await asyncio.sleep(0)
        finally:
            self.running -= 1
        self.answered.append(name)
        return Reply(self._status(name), {"text": name}, f"cmpl-{name}")


async def until(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Wait in the loop for something to come to hold."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)
