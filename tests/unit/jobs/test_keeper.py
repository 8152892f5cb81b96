"""Results are kept when the disk has room again, and the wait for it has an end."""

from __future__ import annotations

import errno
import os

import pytest

from andes_jax.jobs.folder import JobError
from andes_jax.jobs.journal import Journal
from andes_jax.jobs.keeper import Keeper
from tests.unit.jobs.parts import Waits


@pytest.fixture
def full_disk(monkeypatch):
    """Writes fail so many times."""

    def fill(times):
        left, write = [times], os.pwrite

        def pwrite(*arguments):
            if left[0] > 0:
                left[0] -= 1
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(*arguments)

        monkeypatch.setattr(os, "pwrite", pwrite)

    return fill


async def test_a_full_disk_is_waited_out(tmp_path, full_disk):
    waits, troubles = Waits(), []
    with Journal(tmp_path / "journal") as journal:
        keeper = Keeper(journal, waits.patience, troubles.append)
        full_disk(3)
        await keeper.keep("a", 1)
        assert journal.get("a") == 1 and len(waits.slept) == 3
        assert "No space" in troubles[0] and troubles[-1] is None
        await keeper.keep("b", 2)
    with Journal(tmp_path / "journal") as journal:
        assert (journal.get("a"), journal.get("b")) == (1, 2)


async def test_a_disk_that_stays_full_ends_the_job(tmp_path, full_disk):
    waits = Waits()
    with Journal(tmp_path / "journal") as journal:
        full_disk(10**9)
        with pytest.raises(JobError, match="journal: No space.*make room"):
            await Keeper(journal, waits.patience, lambda words: None).keep("a", 1)
    assert 50 < waits.now_s <= 100
