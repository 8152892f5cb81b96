"""Which batches a process works on, when it notices them, and what it does about faults."""

from __future__ import annotations

import asyncio
import time

import pytest

from server.batches import runner as module
from server.batches.runner import BatchRunner
from server.batches.shared import SharedStore
from server.batches.store import Store
from server.batches.work import BatchWork
from tests.server.batches.parts import MODEL, NOW, Echo, add_batch, add_file, kept_batch, lines, rows_of, until


class Process:
    """One of the processes that share a folder."""

    def __init__(self, folder, client=None, places=4):
        self.store = SharedStore(folder)
        self.client = client or Echo()
        self.runner = BatchRunner(self.store, self.client, MODEL, places, lambda: NOW)
        self.running = asyncio.create_task(self.runner.run())

    async def stop(self):
        self.running.cancel()
        await asyncio.wait([self.running])
        self.store.close()
        assert self.client.running == 0


@pytest.fixture
async def process(tmp_path):
    made = []

    def start(*arguments):
        made.append(Process(tmp_path, *arguments))
        return made[-1]

    yield start
    for each in made:
        await each.stop()


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.02)


def status(folder, name="batch_1"):
    return kept_batch(folder, name).status


async def test_batches_are_worked_on_and_those_of_other_models_left_alone(process, tmp_path):
    add_batch(tmp_path, lines(3), "batch_1")
    add_batch(tmp_path, lines(3), "batch_2", model="another")
    add_batch(tmp_path, lines(2), "batch_3")
    at = process()
    await until(lambda: status(tmp_path) == status(tmp_path, "batch_3") == "completed")
    assert status(tmp_path, "batch_2") == "validating" and len(at.client.asked) == 5


async def test_new_ones_are_noticed_at_once_when_told_and_soon_when_not(process, tmp_path, monkeypatch):
    at = process()
    await asyncio.sleep(0.05)
    assert not at.store.exists, "a folder was made for nothing"
    began = time.monotonic()
    add_batch(tmp_path, lines(1))
    at.runner.look()
    await until(lambda: status(tmp_path) == "completed")
    assert time.monotonic() - began < module.LOOK_S / 2
    monkeypatch.setattr(module, "LOOK_S", 0.02)
    at.runner.look()
    add_batch(tmp_path, lines(1), "batch_2")  # by another process
    await until(lambda: status(tmp_path, "batch_2") == "completed")


async def test_a_batch_is_one_process_s_and_another_goes_on_when_that_ends(process, tmp_path, often):
    add_batch(tmp_path, lines(10))
    first, second = process(), process()
    for each in (first, second):
        each.client.may.clear()
    await until(lambda: first.client.running + second.client.running == 4)
    await asyncio.sleep(0.1)
    assert sorted((len(first.client.asked), len(second.client.asked))) == [0, 4]
    one, other = (first, second) if first.client.asked else (second, first)
    one.running.cancel()
    other.client.may.set()
    await until(lambda: status(tmp_path) == "completed")
    assert len(other.client.asked) == 10 and len(rows_of(tmp_path, kept_batch(tmp_path))) == 10


async def test_a_cancellation_by_another_process_is_noticed(process, tmp_path, often):
    add_batch(tmp_path, lines(10))
    at = process()
    at.client.may.clear()
    await until(lambda: at.client.running == 4)
    other = SharedStore(tmp_path)
    await other(Store.change_batch, "batch_1", lambda batch: batch.become("cancelling", NOW))
    other.close()
    await until(lambda: status(tmp_path) == "cancelled")
    assert at.client.running == 0 and kept_batch(tmp_path).failed == 10


async def test_places_are_those_of_all_batches(process, tmp_path):
    for number in range(3):
        add_batch(tmp_path, lines(8), f"batch_{number}")
    at = process(None, 5)
    at.client.may.clear()
    await until(lambda: at.client.running == 5)
    await asyncio.sleep(0.05)
    assert len(at.client.asked) == 5
    at.client.may.set()
    await until(lambda: all(status(tmp_path, f"batch_{number}") == "completed" for number in range(3)))
    assert at.client.most_running == 5 and len(at.client.asked) == 24


async def test_so_many_batches_at_once_but_any_can_be_cancelled(process, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_AT_WORK", 2)
    for number in range(4):
        add_batch(tmp_path, lines(2), f"batch_{number}")
    at = process()
    at.client.may.clear()
    await until(lambda: at.client.running == 4)
    assert [status(tmp_path, f"batch_{number}") for number in range(4)] == ["in_progress"] * 2 + ["validating"] * 2
    await at.store(Store.change_batch, "batch_3", lambda batch: batch.become("cancelling", NOW))
    at.runner.look()
    await until(lambda: status(tmp_path, "batch_3") == "cancelled")
    assert status(tmp_path, "batch_2") == "validating"


async def test_faults_of_the_store_and_of_ours_do_not_end_it(process, tmp_path, monkeypatch, often, caplog):
    monkeypatch.setattr(module, "FAULT_S", 0.01)
    faults = [RuntimeError("ours"), OSError("theirs")]
    looked, run = Store.unfinished, BatchWork.run

    def unfinished(self, model):
        if len(faults) == 1:
            raise faults.pop()
        return looked(self, model)

    async def break_once(self):
        if len(faults) == 2:
            raise faults.pop(0)
        await run(self)

    monkeypatch.setattr(Store, "unfinished", unfinished)
    monkeypatch.setattr(BatchWork, "run", break_once)
    add_batch(tmp_path, lines(2))
    process()
    await until(lambda: status(tmp_path) == "completed")
    assert not faults and "batch batch_1 failed" in caplog.text and "theirs" in caplog.text


async def test_files_whose_time_has_come_are_deleted(process, tmp_path, often):
    store = Store(tmp_path)
    add_file(store, name="file-old", created_at=NOW - 9, expires_at=NOW - 1)
    process()
    await until(lambda: store.file("file-old") is None)
    store.close()
