"""What `batch` and `summarize` have in common: where their calls go, and how a run of a job begins and ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from andes_jax.commands.context import server_context
from andes_jax.commands.job_options import JobOptions
from andes_jax.commands.job_progress import show_tally
from andes_jax.commands.process import end_on_sigterm
from andes_jax.commands.progress import progress_line
from andes_jax.config import Config

if TYPE_CHECKING:
    import httpx

    from andes_jax.jobs.client import HttpClient, Model
    from andes_jax.jobs.estimate import Pace
    from andes_jax.jobs.tally import Tally

SERVER_PARALLEL = 32  # calls at the same time to a server whose size is not known


@dataclass(frozen=True)
class Connection:
    """Whom a job asks."""

    http: httpx.AsyncClient
    at_once: int  # calls


@contextmanager
def connection(config: Config, options: JobOptions) -> Iterator[Connection]:
    """The server that was named, or an engine in this process for the length of a block."""
    if options.server is not None:
        from andes_jax.jobs.client import server_http

        yield Connection(server_http(options.server, options.api_key), options.parallel or SERVER_PARALLEL)
        return
    from andes_jax.build import build_engine
    from server.batches.places import places_at
    from server.local import engine_http

    with progress_line(quiet_in_logs=True) as progress:
        built = build_engine(config, progress=progress)
    try:
        at_once = options.parallel or places_at(built.engine.limits)
        yield Connection(engine_http(server_context(config, built)), at_once)
    finally:
        built.engine.stop(timeout_s=0)


def run_job(
    config: Config,
    options: JobOptions,
    tally: Tally,
    job: Callable[[HttpClient, Model, int], Awaitable[None]],
) -> None:
    """Run a job against whom the options name, shown as they say. SIGTERM and Ctrl-C end it; what is done is kept.

    `job` is given the client, the model and how many calls may go at once.
    """
    with end_on_sigterm(), connection(config, options) as whom:
        try:
            with show_tally(tally, options.show):
                asyncio.run(_ask(whom, options, tally, job))
        except (KeyboardInterrupt, SystemExit):
            total = "?" if tally.total is None else tally.total
            print(f"stopped with {tally.done} of {total} done; the same command goes on with the rest", file=sys.stderr)
            raise


def make_folders(*files: Path) -> None:
    """Make the folders that a job's results will be in, before hours of work might end without a place for them."""
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)


def time_words(pace: Pace, prompt_tokens: int, reply_tokens: int) -> str:
    """How long that many tokens take at a pace, in words."""
    most = timedelta(seconds=round(pace.seconds(prompt_tokens, reply_tokens)))
    return (
        f"at most {most} at {pace.prompt_tokens_per_s:.0f} prompt and {pace.reply_tokens_per_s:.0f} reply tokens/s, "
        "if every reply is as long as it may be"
    )


async def _ask(
    whom: Connection, options: JobOptions, tally: Tally, job: Callable[[HttpClient, Model, int], Awaitable[None]]
) -> None:
    from andes_jax.jobs.client import HttpClient
    from andes_jax.jobs.waiting import Patience

    async with whom.http as http:
        client = HttpClient(http, patience=partial(Patience, options.patience_s), trouble=tally.waits_for)
        model = await client.model(options.server_model)
        tally.begin()
        await job(client, model, whom.at_once)
