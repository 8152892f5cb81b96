"""One text's summary: by one call where the text fits, else notes on its chunks, merged in rounds until they fit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from andes_jax.failure import UserError
from andes_jax.jobs.summaries.asking import Answer, Asker
from andes_jax.jobs.summaries.budget import Budget, budget_of
from andes_jax.jobs.summaries.chunks import Chunk, chunks_of, pack
from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.prompts import Prompts, Stage
from andes_jax.jobs.summaries.splitting import Piece, whole_sentences
from andes_jax.jobs.tokens import TokenCounter

_BETWEEN = "\n\n"  # notes
_BETWEEN_TOKENS = 2


class NothingSaid(UserError):
    """The model's summary of a text is empty."""


@dataclass(slots=True)
class Summary:
    """A summary and how it came about."""

    text: str = ""
    finish: str = "stop"
    source_tokens: int = 0
    chunks: int = 0
    rounds: int = 0  # of merging notes, the last one that gives the summary included; 0: one call did
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    notes: list[dict[str, Any]] = field(default_factory=list)  # of each chunk: tokens, overlap, text

    def add(self, answer: Answer) -> None:
        """Count a call."""
        self.calls += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as it will be read."""

    prompts: Prompts
    budget: Budget
    tokens: int
    chunks: tuple[Chunk, ...]  # one: the text is read whole


class Cutter:
    """Measures texts and cuts them into chunks."""

    def __init__(self, options: SummaryOptions, context_tokens: int, counter: TokenCounter) -> None:
        self._options = options
        self._context_tokens = context_tokens
        self._counter = counter
        self._budgets: dict[Prompts, Budget] = {}

    async def cut(self, text: str) -> Cut:
        """Raises UserError, ServerLost."""
        prompts = Prompts.of(self._options, text)
        budget = self._budgets.get(prompts)
        if budget is None:
            budget = self._budgets[prompts] = await budget_of(prompts, self._context_tokens, self._counter)
        tokens = await self._counter.text(text)
        if tokens <= budget.text:
            return Cut(prompts, budget, tokens, (Chunk(text, tokens, 0),))
        overlap = min(self._options.chunk_overlap, budget.text // 2)
        return Cut(prompts, budget, tokens, tuple(await chunks_of(text, budget.text, overlap, self._counter.text)))


class Summarizer:
    """Makes summaries with one model."""

    def __init__(self, options: SummaryOptions, asker: Asker, cutter: Cutter, counter: TokenCounter) -> None:
        self._options = options
        self._asker = asker
        self._cutter = cutter
        self._counter = counter

    async def summarize(self, text: str) -> Summary:
        """Raises UserError (CallFailed, NothingSaid) for this text alone, ServerLost, JobError or OSError for all."""
        cut = await self._cutter.cut(text)
        summary = Summary(source_tokens=cut.tokens, chunks=len(cut.chunks))
        if len(cut.chunks) == 1:
            last = await self._ask(cut, "whole", text, summary)
        else:
            notes = await self._ask_all(cut, "notes", [chunk.text for chunk in cut.chunks], summary)
            summary.notes = [
                {"tokens": chunk.tokens, "overlap": chunk.overlap, "text": note}
                for chunk, note in zip(cut.chunks, notes, strict=True)
            ]
            last = await self._reduce(cut, notes, summary)
        summary.text, summary.finish = _tidied(last), last.finish
        if not summary.text:
            raise NothingSaid("the model said nothing")
        return summary

    async def _reduce(self, cut: Cut, notes: list[str], summary: Summary) -> Answer:
        """Merge notes in rounds, each time into fewer, until one prompt holds them."""
        while True:
            summary.rounds += 1
            groups = await self._groups(notes, cut.budget.text)
            if len(groups) == 1:
                return await self._ask(cut, "final", groups[0], summary)
            notes = await self._ask_all(cut, "merge", groups, summary)

    async def _groups(self, notes: Sequence[str], most_tokens: int) -> list[str]:
        """Neighbouring notes put together up to so many tokens, two at least."""
        texts = [note + _BETWEEN for note in notes if note]
        counts = await asyncio.gather(*(self._counter.text(text) for text in texts))
        half = most_tokens // 2  # which a note never has; should it, then merging still ends
        pieces = [Piece(text, min(tokens, half)) for text, tokens in zip(texts, counts, strict=True)]
        return ["".join(piece.text for piece in group).rstrip() for group in pack(pieces, most_tokens)] or [""]

    async def _ask_all(self, cut: Cut, stage: Stage, texts: Sequence[str], summary: Summary) -> list[str]:
        """Answers to all, asked at once; the first failure cancels the rest."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._ask(cut, stage, text, summary)) for text in texts]
        except ExceptionGroup as failed:
            raise _first(failed) from None
        return [_tidied(task.result()) for task in tasks]

    async def _ask(self, cut: Cut, stage: Stage, text: str, summary: Summary) -> Answer:
        messages, most = cut.prompts.messages(stage, text), cut.budget.reply(stage)
        answer = await self._asker.ask(messages, most, self._options)
        summary.add(answer)
        return answer


def _tidied(answer: Answer) -> str:
    return whole_sentences(answer.text) if answer.finish == "length" else answer.text


def _first(failed: ExceptionGroup[Exception]) -> Exception:
    """The first failure by itself."""
    first = failed.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
