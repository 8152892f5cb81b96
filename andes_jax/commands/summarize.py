"""andes-jax summarize: summaries of documents of every kind and length."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from andes_jax.commands.job_options import (
    ERRORS_EXIT,
    DryRun,
    Job,
    JobOptions,
    Key,
    Parallel,
    PatienceS,
    ProgressKind,
    Quiet,
    Server,
    ServerModel,
    option,
)
from andes_jax.commands.job_run import make_folders, run_job, time_words
from andes_jax.commands.options import takes_settings
from andes_jax.config import Config
from andes_jax.failure import UsageError

if TYPE_CHECKING:
    from andes_jax.jobs.client import HttpClient, Model
    from andes_jax.jobs.documents.sources import Source
    from andes_jax.jobs.summaries.options import SummaryOptions

_Paths = Annotated[list[str], typer.Argument(metavar="PATHS...", help="Files, folders or globs; - is standard input.")]
_Output = Annotated[Path, option("Where summaries go: JSON lines, or Markdown for a name in .md.")]
_TextField = Annotated[str, option("The field of a line of JSON that holds its text.")]
_Words = Annotated[int | None, option("About how many words, or Chinese characters.", min=1, max=4000)]
_Lang = Annotated[str | None, option("Language to write in, such as en, zh or French; else the document's.")]
_Style = Annotated[str, option("paragraph, bullets or headline.")]
_Question = Annotated[str | None, option("What the summary should answer.")]
_ChunkTokens = Annotated[int | None, option("Tokens of text the model reads at once; else what fits.", min=64)]
_ChunkOverlap = Annotated[int, option("Tokens that a chunk repeats of the one before, in whole sentences.", min=0)]
_Context = Annotated[int | None, option("Tokens of prompt and reply; else what the server says.", min=256)]
_Temperature = Annotated[float, option("0 always takes the likeliest token.", min=0, max=2)]
_Seed = Annotated[int, option("For a temperature above 0.", min=0, max=2**31 - 1)]
_Penalty = Annotated[float, option("Makes what was said often less likely; above 0, up to 2.", min=-2, max=2)]
_Trace = Annotated[bool, option("Keep the notes on every chunk in the rows.", "--trace")]


@dataclass(frozen=True)
class _Task:
    """What is to be summarized, how, and where to."""

    sources: Callable[[], Iterator[Source]]
    text_field: str
    summary: SummaryOptions
    context_tokens: int | None
    output: Path
    folder: Path
    trace: bool

    def about(self, model: Model) -> dict[str, str]:
        """Whose job it is."""
        return {"kind": "summarize", "model": model.name}

    def context(self, model: Model) -> int:
        """Tokens of the model's context. Raises UsageError where nobody knows."""
        if self.context_tokens is None and model.context_tokens is None:
            raise UsageError("the server does not say how long its context is; --context-tokens does")
        known = [each for each in (self.context_tokens, model.context_tokens) if each is not None]
        return min(known)


@takes_settings("model", "engine", model="option", variant="jobs")
def summarize(
    config: Config,
    paths: _Paths,
    output: _Output = Path("summaries.jsonl"),
    style: _Style = "paragraph",
    words: _Words = None,
    lang: _Lang = None,
    question: _Question = None,
    text_field: _TextField = "text",
    chunk_tokens: _ChunkTokens = None,
    chunk_overlap: _ChunkOverlap = 128,
    context_tokens: _Context = None,
    temperature: _Temperature = 0.0,
    seed: _Seed = 0,
    frequency_penalty: _Penalty = 0.0,
    trace: _Trace = False,
    job: Job = None,
    server: Server = None,
    server_model: ServerModel = None,
    api_key: Key = None,
    parallel: Parallel = None,
    patience: PatienceS = 600.0,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    progress: ProgressKind = "bar",
) -> None:
    """Summarize documents, on an engine in this process or on a server: text, Markdown, reStructuredText, HTML, PDF,
    Word and lines of JSON.

    A document that does not fit into the model's context is read in chunks. Killed at any moment, the same command
    goes on with what is left. The exit code is 3 when some documents could not be summarized.

    Examples:

      andes-jax summarize reports/ --output summaries.md
      andes-jax summarize "**/*.pdf" notes.docx --style bullets --words 80 --lang en
      cat paper.txt | andes-jax summarize - --question "What was measured?"
    """
    from andes_jax.jobs.documents.sources import find_files, sources_of
    from andes_jax.jobs.summaries.options import SummaryOptions

    options = JobOptions.of(server, server_model, api_key, parallel, patience, quiet, progress)
    named: Any = style
    summary = SummaryOptions(
        style=named, words=words, lang=lang, question=question, chunk_tokens=chunk_tokens, chunk_overlap=chunk_overlap,
        temperature=temperature, seed=seed, frequency_penalty=frequency_penalty,
    )  # fmt: skip
    files = find_files(paths, output)
    data = sys.stdin.buffer.read() if None in files else b""
    folder = job or output.with_name(f"{output.stem}.job")
    task = _Task(partial(sources_of, files, data), text_field, summary, context_tokens, output, folder, trace)
    if dry_run:
        _plan(config, options, task)
    else:
        make_folders(output)
        _run(config, options, task)


def _run(config: Config, options: JobOptions, task: _Task) -> None:
    from andes_jax.jobs.client import Bounded
    from andes_jax.jobs.folder import open_job
    from andes_jax.jobs.keeper import Keeper
    from andes_jax.jobs.summaries.asking import Asker
    from andes_jax.jobs.summaries.run import SummaryRun
    from andes_jax.jobs.summaries.summarizer import Cutter, Summarizer
    from andes_jax.jobs.tally import Tally
    from andes_jax.jobs.tokens import TokenCounter
    from andes_jax.jobs.waiting import Patience

    tally = Tally()
    counts = (0, 0)

    async def ask(client: HttpClient, model: Model, at_once: int) -> None:
        nonlocal counts
        counter = TokenCounter(client)
        cutter = Cutter(task.summary, task.context(model), counter)
        with open_job(task.folder, task.about(model)) as journal:
            keeper = Keeper(journal, partial(Patience, options.patience_s), tally.waits_for)
            asker = Asker(Bounded(client, at_once, tally.called), model.name, journal, keeper)
            run = SummaryRun(task.summary, model.name, task.text_field, journal, keeper, tally)
            await run.run(task.sources, Summarizer(task.summary, asker, cutter, counter), at_once)
            counts = run.write(task.output, task.trace)

    run_job(config, options, tally, ask)
    if options.show == "bar":
        resumed = f", {tally.resumed} of them from earlier runs" if tally.resumed else ""
        print(f"{counts[0]} summaries and {counts[1]} errors in {task.output}{resumed}", file=sys.stderr)
    if counts[1]:
        raise typer.Exit(ERRORS_EXIT)


def _plan(config: Config, options: JobOptions, task: _Task) -> None:
    from andes_jax.jobs.estimate import measure_pace
    from andes_jax.jobs.folder import look_into_job
    from andes_jax.jobs.summaries.plan import plan_summaries
    from andes_jax.jobs.summaries.run import record_key
    from andes_jax.jobs.summaries.summarizer import Cutter
    from andes_jax.jobs.tally import Tally
    from andes_jax.jobs.tokens import TokenCounter

    async def ask(client: HttpClient, model: Model, at_once: int) -> None:
        cutter = Cutter(task.summary, task.context(model), TokenCounter(client))
        with look_into_job(task.folder, task.about(model)) as journal:

            def is_done(source_hash: str) -> bool:
                return journal is not None and record_key(task.summary, source_hash, model.name) in journal

            plan = await plan_summaries(task.sources(), task.text_field, cutter, is_done)
        print(f"{plan.documents} documents: {plan.done} done, {plan.unreadable} that cannot be summarized")
        print(f"to read: {plan.source_tokens} tokens in {plan.chunks} chunks, by {plan.calls} calls")
        print(f"tokens: {plan.prompt_tokens} of prompts, {plan.reply_tokens} of replies at most")
        if plan.calls:
            pace = await measure_pace(client, model.name, min(at_once, plan.calls))
            print(f"time: {time_words(pace, plan.prompt_tokens, plan.reply_tokens)}")

    run_job(config, replace(options, show="nothing"), Tally(), ask)
