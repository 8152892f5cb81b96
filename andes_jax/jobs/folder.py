"""The folder of one job: whose it is, its journal, and a lock, so that two processes never work on it at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import orjson

from andes_jax.failure import UserError
from andes_jax.jobs.journal import Journal, sync_folder

_LOCK, _ABOUT, _JOURNAL = "lock", "job.json", "journal"


class JobError(UserError):
    """A job that cannot be begun or go on; the message says what to do."""


@contextmanager
def open_job(folder: Path, about: Mapping[str, str]) -> Iterator[Journal]:
    """The journal of a job that is new, or was begun with the same `about`, locked for the length of a block.

    Raises JobError where another process works on it, where it is another job, or where the folder is something else.
    """
    if folder.exists() and not folder.is_dir():
        raise JobError(f"{folder} is no folder; name another with --job")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _LOCK).exists():
        raise JobError(f"{folder} holds other things than a job; name another folder with --job")
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        _check_about(folder, about)
        with Journal(folder / _JOURNAL) as journal:
            yield journal


@contextmanager
def look_into_job(folder: Path, about: Mapping[str, str]) -> Iterator[Journal | None]:
    """The journal of a job if it was ever begun, else None and nothing is made. Raises as `open_job`."""
    if not (folder / _LOCK).exists():
        yield None
        return
    with open_job(folder, about) as journal:
        yield journal


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock, which ends with the process however that ends."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise JobError(
                f"another process (id {owner}) is at work on {folder}; wait for it, or name another folder with --job"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)


def _check_about(folder: Path, about: Mapping[str, str]) -> None:
    path = folder / _ABOUT
    if not path.exists():
        write_whole(path, [orjson.dumps(dict(about), option=orjson.OPT_INDENT_2) + b"\n"])
        return
    try:
        known = orjson.loads(path.read_bytes())
    except ValueError:
        known = None
    if not isinstance(known, dict):
        raise JobError(f"{path} cannot be read; name another folder with --job")
    for name, value in about.items():
        if known.get(name) != value:
            raise JobError(
                f"the job in {folder} was begun with {name} {known.get(name)!r}, not {value!r}; "
                "name another folder with --job"
            )


def write_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that is there whole or not at all, whatever happens meanwhile; raises OSError."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        with open(draft, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
