"""A batch whose process dies at any moment ends with the rows of one that was left alone: none lost, none twice."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from server.batches.places import Places
from server.batches.shared import SharedStore
from server.batches.store import Store
from server.batches.work import BatchWork
from tests.server.batches.parts import NOW, Echo, add_batch, kept_batch, line, rows_of

KINDS = {
    "good": lambda number: line(f"r{number}"),
    "refused": lambda number: line(f"no{number}"),
    "other url": lambda number: line(f"o{number}", url="/v1/chat/completions"),
    "broken": lambda number: b'{"custom_id": \n',
    "again": lambda number: line("r0"),
    "blank": lambda number: b"\n",
}


class Dying(SharedStore):
    """A store whose process dies in the middle of one of the things that are asked of it: no later one happens."""

    def __init__(self, folder: Path, last: int | None, moment: str) -> None:
        super().__init__(folder)
        self._left = last
        self._moment = moment
        self.dead = asyncio.Event()

    async def __call__(self, method, *args, **kwargs):
        if self.dead.is_set():
            await asyncio.Event().wait()
        if self._left is None:
            return await super().__call__(method, *args, **kwargs)
        self._left -= 1
        if self._left > 0:
            return await super().__call__(method, *args, **kwargs)
        self.dead.set()
        if self._moment == "after":
            await super().__call__(method, *args, **kwargs)
        elif self._moment == "within" and method is Store.end_batch:
            with suppress(ZeroDivisionError):  # its files are in their place, and nothing knows of them
                await super().__call__(lambda store: _end_half(store, *args))
        await asyncio.Event().wait()


def _end_half(store: Store, batch, outputs) -> None:
    store._insert_file = lambda *ignored: 1 // 0  # type: ignore[method-assign]
    store.end_batch(batch, outputs)


def client() -> Echo:
    made = Echo(lambda name: 400 if name.startswith("no") else 200)
    made.turns = lambda name: 1 + ord(name[-1]) % 5
    return made


async def run(folder: Path, last: int | None, moment: str, places: int) -> tuple[Echo, bool]:
    """Work until the end, or until the process dies with its so manieth use of the store; whether it did."""
    store, asked = Dying(folder, last, moment), client()
    work = BatchWork("batch_1", store, asked, Places(places), lambda: NOW)
    working, dying = asyncio.create_task(work.run()), asyncio.create_task(store.dead.wait())
    await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
    if store.dead.is_set():
        await asyncio.sleep(0.003)
    died = not working.done()
    for task in (working, dying):
        task.cancel()
    await asyncio.wait([working, dying])
    store.close()
    if not died:
        working.result()
    return asked, died


def rows(folder: Path) -> list[list[dict]]:
    batch = kept_batch(folder)
    assert batch.status in ("completed", "failed")
    found = [rows_of(folder, batch, name) for name in ("output_file_id", "error_file_id")]
    assert [len(each) for each in found] == [batch.completed, batch.failed]
    assert batch.total == batch.completed + batch.failed
    return found


def done(folder: Path) -> set[str]:
    """Who has a row that was asked for."""
    store = Store(folder)
    drafts = [folder / f"{failed}.draft" for failed in (False, True)]
    for failed, draft in enumerate(drafts):
        store.write_rows("batch_1", failed=bool(failed), draft=draft)
    store.close()
    kept = [json.loads(row) for draft in drafts for row in draft.read_bytes().splitlines()]
    return {row["custom_id"] for row in kept if row["response"] is not None}


@settings(max_examples=25, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), max_size=12),
    deaths=st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["before", "within", "after"])), max_size=4),
    places=st.integers(1, 5),
)
def test_nothing_is_lost_or_doubled_wherever_the_work_is_cut_off(kinds, deaths, places):
    content = b"".join(KINDS[kind](number) for number, kind in enumerate(kinds))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        alone, cut = Path(one), Path(other)
        for folder in (alone, cut):
            add_batch(folder, content)
        asyncio.run(run(alone, None, "", places))
        for last, moment in deaths:
            before = done(cut)
            asked, died = asyncio.run(run(cut, last, moment, places))
            assert before.isdisjoint(asked.asked), "asked again"
            if not died:
                break
        asyncio.run(run(cut, None, "", places))
        assert rows(cut) == rows(alone)
