"""What a summary job would do: documents, chunks, calls and tokens, counted without asking for any reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from andes_jax.failure import UserError
from andes_jax.jobs.client import ServerLost
from andes_jax.jobs.documents.sources import Source
from andes_jax.jobs.pool import for_each
from andes_jax.jobs.summaries.summarizer import Cut, Cutter
from andes_jax.jobs.tokens import AT_ONCE

_INSTRUCTION_TOKENS = 100  # about, of each call; most of them come from the prefix cache


@dataclass(slots=True)
class SummaryPlan:
    """Counts of documents and tokens; of calls that are not made yet the most that there can be."""

    documents: int = 0
    unreadable: int = 0  # or not possible with this context
    done: int = 0  # by earlier runs
    chunks: int = 0  # of the documents that are left, 1 for one that is read whole
    source_tokens: int = 0  # of the documents that are left
    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0


async def plan_summaries(
    sources: Iterable[Source], text_field: str, cutter: Cutter, is_done: Callable[[str], bool]
) -> SummaryPlan:
    """Read, measure and cut every document that is not done, by its hash. Raises ServerLost, OSError."""
    plan = SummaryPlan()

    async def count(source: Source) -> None:
        plan.documents += 1
        document = await asyncio.to_thread(source.read, text_field)
        if document.text is None:
            plan.unreadable += 1
            return
        if is_done(document.sha256):
            plan.done += 1
            return
        try:
            _add(plan, await cutter.cut(document.text))
        except ServerLost:
            raise
        except UserError:
            plan.unreadable += 1

    await for_each(sources, count, AT_ONCE)
    return plan


def _add(plan: SummaryPlan, cut: Cut) -> None:
    """Count one document: its chunks, then rounds in which as many notes as fit become one."""
    chunks, budget = len(cut.chunks), cut.budget
    plan.chunks += chunks
    plan.source_tokens += cut.tokens
    notes, calls = chunks, 1
    while notes > 1:
        calls += notes
        together = max(2, budget.text // budget.notes)
        notes = -(-notes // together)
    merging = calls - 1  # calls whose replies are notes, which are read again
    plan.calls += calls
    read = sum(chunk.tokens for chunk in cut.chunks)
    plan.prompt_tokens += read + merging * budget.notes + calls * _INSTRUCTION_TOKENS
    plan.reply_tokens += merging * budget.notes + budget.summary
