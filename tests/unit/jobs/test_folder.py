"""The folder of a job, its lock, and files that are there whole or not at all."""

from __future__ import annotations

import subprocess
import sys

import pytest

from andes_jax.jobs.folder import JobError, open_job, write_whole

HOLD = """
import sys
from pathlib import Path
from andes_jax.jobs.folder import open_job
with open_job(Path(sys.argv[1]), {"kind": "batch"}) as journal:
    journal.put("a", 1)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_has_died(tmp_path):
    folder = tmp_path / "deep" / "job"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(JobError, match=f"id {holder.pid}.*--job"), open_job(folder, {"kind": "batch"}):
            pass
        holder.kill()
        holder.wait(20)
        with open_job(folder, {"kind": "batch"}) as journal:
            assert journal.get("a") == 1


def test_another_job_is_refused(tmp_path):
    with open_job(tmp_path / "job", {"kind": "batch", "model": "m"}):
        pass
    with pytest.raises(JobError, match="model 'm', not 'n'"), open_job(tmp_path / "job", {"model": "n"}):
        pass
    (tmp_path / "job" / "job.json").write_text("[")
    with pytest.raises(JobError, match="cannot be read"), open_job(tmp_path / "job", {"model": "m"}):
        pass


def test_folders_of_other_things_are_left_alone(tmp_path):
    (tmp_path / "notes").write_text("mine")
    for place, words in ((tmp_path, "other things"), (tmp_path / "notes", "no folder")):
        with pytest.raises(JobError, match=words), open_job(place, {}):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "rows"
    write_whole(path, [b"a", b"b"])

    def broken():
        yield b"c"
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        write_whole(path, broken())
    assert path.read_bytes() == b"ab" and len(list(tmp_path.iterdir())) == 1
