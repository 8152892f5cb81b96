"""An append-only file of results by key. What was put is there after any kind of end, a loss of power included."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

_FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(OSError):
    """There is no room for a record; the journal is as it was before."""


class Journal:
    """One record a line: a checksum, then key and value as JSON. Of records with one key the last counts.

    Values stay on disk; memory holds one entry per key. One thread of one process at a time may use a journal.
    """

    def __init__(self, path: Path) -> None:
        """Opens or begins the file. What a broken write left at its end is cut off; raises OSError."""
        is_new = not path.exists()
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if is_new:
            sync_folder(path.parent)
        self._places: dict[str, tuple[int, int]] = {}  # offset and length of each key's line
        self.damaged = 0  # lines before the last good one that do not hold what was written
        self._end = self._scan()
        os.ftruncate(self._file, self._end)

    def _scan(self) -> int:
        """Note where each record is; the offset after the last good one."""
        end = offset = bad = 0
        with open(self._path, "rb") as file:
            for line in file:
                record = _parse(line)
                if record is None:
                    bad += 1
                else:
                    self._places[record[0]] = (offset, len(line))
                    end = offset + len(line)
                    self.damaged, bad = self.damaged + bad, 0
                offset += len(line)
        return end

    def put(self, key: str, value: Any) -> None:
        """Add a record, on disk when this returns. Raises DiskFull, or OSError when the disk fails."""
        line = _format(key, value)
        try:
            written = 0
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._end + written)
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            if error.errno in _FULL:
                raise DiskFull(error.errno, error.strerror, str(self._path)) from error
            raise
        self._places[key] = (self._end, len(line))
        self._end += len(line)

    def get(self, key: str) -> Any:
        """The value last put under a key; None where there is none."""
        place = self._places.get(key)
        if place is None:
            return None
        record = _parse(os.pread(self._file, place[1], place[0]))
        if record is None:
            raise OSError(errno.EIO, "a record can no longer be read", str(self._path))
        return record[1]

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        """Give the file back; nothing is lost without it."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _format(key: str, value: Any) -> bytes:
    data = orjson.dumps([key, value])
    return b"%08x %b\n" % (zlib.crc32(data), data)


def _parse(line: bytes) -> tuple[str, Any] | None:
    """Key and value of a line; None for one that is not whole."""
    if len(line) < 10 or line[8:9] != b" " or line[-1:] != b"\n":
        return None
    data = line[9:-1]
    if line[:8] != b"%08x" % zlib.crc32(data):
        return None
    try:
        key, value = orjson.loads(data)
    except ValueError:
        return None
    return key, value


def sync_folder(folder: Path) -> None:
    """Make names in a folder as lasting as the files they name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
