"""A summary job: every document becomes one row, and none is summarized twice, however often the job is cut off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from andes_jax.failure import UserError
from andes_jax.jobs.client import ServerLost
from andes_jax.jobs.documents.sources import Document, Source
from andes_jax.jobs.folder import JobError, write_whole
from andes_jax.jobs.journal import Journal
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.pool import for_each
from andes_jax.jobs.summaries.asking import CallFailed
from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.rows import Row, error_row, json_lines, markdown, summary_row
from andes_jax.jobs.summaries.summarizer import NothingSaid, Summarizer
from andes_jax.jobs.tally import Tally


class SummaryRun:
    """One run over documents with the job's journal."""

    def __init__(
        self, options: SummaryOptions, model: str, text_field: str, journal: Journal, keeper: Keeper, tally: Tally
    ) -> None:
        self._options = options
        self._model = model
        self._text_field = text_field
        self._journal = journal
        self._keeper = keeper
        self._tally = tally
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._new: set[str] = set()  # keys of this run's records
        # Of each document, by its number: its name, and its record's key or a row that another run may better.
        self._rows: dict[int, tuple[str, str | Row]] = {}

    async def run(self, sources: Callable[[], Iterable[Source]], summarizer: Summarizer, at_once: int) -> None:
        """Summarize what is not there yet. Raises ServerLost, JobError, OSError."""
        self._tally.total = sum(1 for _ in sources())

        async def work(numbered: tuple[int, Source]) -> None:
            number, source = numbered
            document = await asyncio.to_thread(source.read, self._text_field)
            self._rows[number] = document.name, await self._row(document, summarizer)

        await for_each(enumerate(sources()), work, at_once)

    async def _row(self, document: Document, summarizer: Summarizer) -> str | Row:
        """A document's row, or the key of its record."""
        if document.text is None:
            self._tally.finished(error=True)
            return error_row("unreadable", document.error or "it cannot be read")
        source_hash = document.sha256
        key = record_key(self._options, source_hash, self._model)
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:  # documents of one text are one summary
            resumed = key in self._journal and key not in self._new
            if key in self._journal:
                row: Row = self._journal.get(key)
            else:
                row, final = await self._summarize(document.text, source_hash, summarizer)
                if final:
                    self._new.add(key)
                    await self._keeper.keep(key, row)
        self._tally.finished(error=row["error"] is not None, resumed=resumed)
        return key if key in self._journal else row

    async def _summarize(self, text: str, source_hash: str, summarizer: Summarizer) -> tuple[dict[str, Any], bool]:
        """A new row, and whether asking again would give the same."""
        began_s = time.monotonic()
        try:
            summary = await summarizer.summarize(text)
        except (ServerLost, JobError):
            raise
        except CallFailed as error:
            return error_row(error.code, str(error), source_hash=source_hash), error.final
        except NothingSaid as error:
            return error_row("empty_summary", str(error), source_hash=source_hash), True
        except UserError as error:
            return error_row("not_possible", str(error), source_hash=source_hash), False
        seconds = time.monotonic() - began_s
        row = summary_row(summary, source_hash=source_hash, model=self._model, options=self._options, seconds=seconds)
        return row, True

    def write(self, output: Path, trace: bool) -> tuple[int, int]:
        """Write the rows in the order of the documents, as Markdown by the file's name; how many summaries and errors.

        To be called after `run`; raises OSError.
        """
        render = markdown if output.suffix.lower() in (".md", ".markdown") else json_lines
        write_whole(output, render(self._ordered(), trace))
        errors = sum(row["error"] is not None for _, row in self._ordered())
        return len(self._rows) - errors, errors

    def _ordered(self) -> Iterator[tuple[str, Row]]:
        for number in sorted(self._rows):
            name, row = self._rows[number]
            yield name, self._journal.get(row) if isinstance(row, str) else row


def record_key(options: SummaryOptions, source_hash: str, model: str) -> str:
    """The journal's key of a summary."""
    return f"row:{options.key(source_hash, model)}"
