"""andes-jax batch: runs a file of calls in OpenAI's batch format."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

_File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines with custom_id, method, url and body.")]
_Output = Annotated[Path | None, option("Where replies go; else beside FILE, as NAME.output.jsonl.")]
_Errors = Annotated[Path | None, option("Where error rows go; else beside FILE, as NAME.errors.jsonl.")]


@takes_settings("model", "engine", model="option", variant="jobs")
def batch(
    config: Config,
    file: _File,
    output: _Output = None,
    errors: _Errors = None,
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
    """Run a file of calls in OpenAI's batch format, on an engine in this process or on a server.

    Each line becomes one row with its custom_id: a reply, or an error. Killed at any moment, the same command goes
    on with what is left. The exit code is 3 when some rows are errors.

    Examples:

      andes-jax batch requests.jsonl
      andes-jax batch requests.jsonl --server http://127.0.0.1:8000 --output replies.jsonl
    """
    options = JobOptions.of(server, server_model, api_key, parallel, patience, quiet, progress)
    if not file.is_file():
        raise UsageError(f"{file} is no file; give a file of JSON lines with custom_id, method, url and body")
    output = output or file.with_name(f"{file.stem}.output.jsonl")
    errors = errors or file.with_name(f"{file.stem}.errors.jsonl")
    if len({path.resolve() for path in (file, output, errors)}) < 3:
        raise UsageError("FILE, --output and --errors must be three different files")
    if dry_run:
        _plan(config, options, file, job or file.with_name(f"{file.stem}.job"))
        return
    make_folders(output, errors)
    _run(config, options, file, output, errors, job or file.with_name(f"{file.stem}.job"))


def _run(config: Config, options: JobOptions, file: Path, output: Path, errors: Path, folder: Path) -> None:
    from andes_jax.jobs.batch import BatchRun
    from andes_jax.jobs.client import Bounded
    from andes_jax.jobs.folder import open_job
    from andes_jax.jobs.keeper import Keeper
    from andes_jax.jobs.tally import Tally
    from andes_jax.jobs.waiting import Patience

    tally = Tally()
    counts = (0, 0)

    async def ask(client: HttpClient, model: Model, at_once: int) -> None:
        nonlocal counts
        with open_job(folder, {"kind": "batch", "model": model.name}) as journal:
            keeper = Keeper(journal, partial(Patience, options.patience_s), tally.waits_for)
            run = BatchRun(file, journal, keeper, tally)
            await run.run(Bounded(client, at_once, tally.called), at_once)
            counts = run.write(output, errors)

    run_job(config, options, tally, ask)
    if options.show == "bar":
        resumed = f", {tally.resumed} of them from earlier runs" if tally.resumed else ""
        print(f"{counts[0]} replies in {output}, {counts[1]} errors in {errors}{resumed}", file=sys.stderr)
    if counts[1]:
        raise typer.Exit(ERRORS_EXIT)


def _plan(config: Config, options: JobOptions, file: Path, folder: Path) -> None:
    from andes_jax.jobs.batch_plan import plan_batch
    from andes_jax.jobs.estimate import measure_pace
    from andes_jax.jobs.folder import look_into_job
    from andes_jax.jobs.tally import Tally
    from andes_jax.jobs.tokens import TokenCounter

    async def ask(client: HttpClient, model: Model, at_once: int) -> None:
        with look_into_job(folder, {"kind": "batch", "model": model.name}) as journal:
            plan = await plan_batch(file, journal, TokenCounter(client), model.context_tokens)
        print(f"{plan.lines} lines: {plan.calls} calls to make, {plan.done} done, {plan.bad} that are no calls")
        print(f"tokens: {plan.prompt_tokens} of prompts, {plan.reply_tokens} of replies at most")
        if plan.calls:
            pace = await measure_pace(client, model.name, min(at_once, plan.calls))
            print(f"time: {time_words(pace, plan.prompt_tokens, plan.reply_tokens)}")

    run_job(config, replace(options, show="nothing"), Tally(), ask)
