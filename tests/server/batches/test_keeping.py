"""Who keeps files, whether work goes on, and faults of the folder in words."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from server.app import create_app
from server.errors import ApiError
from tests.server.batches.parts import add_batch, kept_batch, lines, until
from tests.server.parts import mk_context, says


@pytest.fixture
def keeping_of():
    contexts = []

    def make(**settings):
        contexts.append(mk_context(says("ok"), **settings))
        return create_app(contexts[-1]).batches

    yield make
    for context in contexts:
        context.engine.stop(0)


async def test_without_a_folder_nothing_is_kept(keeping_of):
    keeping = keeping_of()
    for ask in (lambda: keeping.store, lambda: keeping.runner):
        with pytest.raises(ApiError) as raised:
            ask()
        assert (raised.value.status, raised.value.code) == (501, "no_files")
    keeping.start()
    await keeping.close()


async def test_work_goes_on_while_it_runs_and_calls_need_no_key(keeping_of, tmp_path):
    add_batch(tmp_path, lines(3))
    keeping = keeping_of(data_dir=tmp_path, api_keys=("key",))
    keeping.start()
    await until(lambda: kept_batch(tmp_path).status == "completed")
    assert kept_batch(tmp_path).completed == 3
    await keeping.stop()
    add_batch(tmp_path, lines(3), "batch_2")
    keeping.runner.look()
    await keeping.stop()
    assert kept_batch(tmp_path, "batch_2").status == "validating"
    await keeping.close()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OSError(errno.ENOSPC, "full"), 507, "disk_full"),
        (OSError(errno.EDQUOT, "quota"), 507, "disk_full"),
        (OSError(errno.EACCES, "not yours"), 500, "files_unavailable"),
        (sqlite3.OperationalError("locked"), 500, "files_unavailable"),
    ],
)
async def test_faults_of_the_folder(keeping_of, tmp_path, caplog, error, status, code):
    keeping = keeping_of(data_dir=tmp_path)
    with pytest.raises(ApiError) as raised, keeping.faults():
        raise error
    assert (raised.value.status, raised.value.code) == (status, code)
    assert str(tmp_path) in caplog.text and str(tmp_path) not in raised.value.message


async def test_a_full_database_is_a_full_disk(keeping_of, tmp_path):
    database = sqlite3.connect(tmp_path / "small", autocommit=True)
    database.execute("CREATE TABLE t (x)")
    database.execute("PRAGMA max_page_count = 2")
    with pytest.raises(ApiError) as raised, keeping_of(data_dir=tmp_path).faults():
        database.execute("INSERT INTO t VALUES (zeroblob(100000))")
    database.close()
    assert raised.value.status == 507
