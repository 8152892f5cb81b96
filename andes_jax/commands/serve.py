"""andes-jax serve: the HTTP server."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from andes_jax.commands.context import front_end_context, server_context, server_settings
from andes_jax.commands.failure import CommandError
from andes_jax.commands.options import takes_settings
from andes_jax.commands.process import build, end_on_sigterm, log_to_stderr
from andes_jax.commands.progress import progress_line
from andes_jax.config import Config

if TYPE_CHECKING:
    from server.addresses import BoundServer
    from server.context import ServerContext

Announce = Callable[[str, str, tuple[str, ...]], None]  # the model's name, words about its engine, and the URLs


@takes_settings("model", "engine", "scheduling", "server", model="argument")
def serve(config: Config) -> None:
    """Serve a model over HTTP/1.1 and HTTP/2 with the OpenAI API.

    Compiles what it needs first (a minute or two, seconds with the same settings again) and says when it is ready.
    SIGTERM or Ctrl-C lets running replies finish, up to --shutdown-timeout.

    Examples:

      andes-jax serve
      andes-jax serve ./Qwen3-0.6B --port 9000 --policy fcfs
      andes-jax serve model.gguf --config low-memory
      andes-jax serve model.gguf --engine gpu-host:8100   # a front end, without weights
    """
    log_to_stderr(config)
    from server.loops import loop_factory
    from server.serve import BindError, bind

    # Looked for and taken before the model is loaded, or a long start could end with a port that is in use.
    loop_factory(config.server.event_loop)
    try:
        bound = bind(server_settings(config))
    except BindError as error:
        raise CommandError(str(error)) from error
    started = time.monotonic()

    def announce(model_id: str, words: str, urls: tuple[str, ...]) -> None:
        lines = [f"{model_id} is ready after {time.monotonic() - started:.0f} s: {words}"]
        lines += [f"listening on {url} ({_protocols(url)}); stop with Ctrl-C" for url in urls]
        if not config.server.api_keys and config.server.host not in ("127.0.0.1", "localhost", "::1"):
            lines.append("no API keys are set: everyone who reaches this address is served (--api-keys)")
        print("\n".join(lines), file=sys.stderr, flush=True)

    raise typer.Exit((_serve_by_workers if config.server.http_workers else _serve_here)(config, bound, announce))


def _serve_here(config: Config, bound: BoundServer, announce: Announce) -> int:
    """Serve connections in this process; the exit code."""
    from server.serve import serve as serve_until_told

    try:
        with end_on_sigterm():
            context, words = _context(config)
    except BaseException:
        bound.release()  # later it is the server that gives the addresses back
        raise
    return serve_until_told(context, bound, announce=lambda urls: announce(context.model_id, words, urls))


def _serve_by_workers(config: Config, bound: BoundServer, announce: Announce) -> int:
    """Serve connections in other processes; the exit code."""
    from andes_jax.commands.http_workers import serve_by_workers

    try:
        with end_on_sigterm():
            built = None if config.server.engine is not None else build(config)
        return serve_by_workers(config, bound, built, announce)
    finally:
        bound.release()


def _context(config: Config) -> tuple[ServerContext, str]:
    """What the server is given, and words about its engine."""
    if config.server.engine is not None:
        with progress_line() as progress:
            return front_end_context(config, progress)
    built = build(config)
    return server_context(config, built), built.description


def _protocols(url: str) -> str:
    return "gRPC" if url.startswith("grpc") else "HTTP/1.1 and HTTP/2"
