"""Runs a batch file: every line becomes one row, and none is asked for twice, however often the run is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from andes_jax.batch_lines import BadLine, BatchLine
from andes_jax.jobs.batch_file import bad_row, digest, is_error, read_lines, reply_row
from andes_jax.jobs.client import Client
from andes_jax.jobs.folder import write_whole
from andes_jax.jobs.journal import Journal
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.pool import for_each
from andes_jax.jobs.tally import Tally


class BatchRun:
    """One run over one file with the job's journal."""

    def __init__(self, path: Path, journal: Journal, keeper: Keeper, tally: Tally) -> None:
        self._path = path
        self._journal = journal
        self._keeper = keeper
        self._tally = tally
        self._faults: dict[str, dict[str, Any]] = {}  # rows of this run that another run may better, by custom_id

    async def run(self, client: Client, at_once: int) -> None:
        """Ask for what is not there yet. Raises ServerLost, OSError."""
        self._tally.total = sum(1 for _ in read_lines(self._path))

        async def work(line: BatchLine | BadLine) -> None:
            await self._answer(line, client)

        await for_each(read_lines(self._path), work, at_once)

    async def _answer(self, line: BatchLine | BadLine, client: Client) -> None:
        if isinstance(line, BadLine):
            self._tally.finished(error=True)
            return
        row = known_row(self._journal, line)
        resumed = row is not None
        if row is None:
            reply = await client.post(line.url, line.body)
            row = reply_row(line, reply)
            if reply.final:
                await self._keeper.keep(line.custom_id, {"digest": digest(line), "row": row})
            else:
                self._faults[line.custom_id] = row
        self._tally.finished(error=is_error(row), resumed=resumed)

    def write(self, output: Path, errors: Path) -> tuple[int, int]:
        """Write both files, rows in the order of the lines; how many rows each has. To be called after `run`."""
        counts = [0, 0]

        def pieces(wanted: bool) -> Iterator[bytes]:
            for row in self._rows():
                if is_error(row) == wanted:
                    counts[wanted] += 1
                    yield orjson.dumps(row) + b"\n"

        write_whole(output, pieces(False))
        write_whole(errors, pieces(True))
        return counts[False], counts[True]

    def _rows(self) -> Iterator[dict[str, Any]]:
        for line in read_lines(self._path):
            if isinstance(line, BadLine):
                yield bad_row(line)
                continue
            row = known_row(self._journal, line) or self._faults.get(line.custom_id)
            if row is None:  # the file has grown since it was read
                message = "The line was not there when the run began; run the same command again."
                row = bad_row(BadLine(line.number, line.custom_id, "not_run", message))
            yield row


def known_row(journal: Journal, line: BatchLine) -> dict[str, Any] | None:
    """What the journal has for a line, unless the line was another one then."""
    record = journal.get(line.custom_id)
    return record["row"] if record is not None and record["digest"] == digest(line) else None
