"""andes-jax serve: the HTTP server."""

from __future__ import annotations

import hashlib
import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer

import andes_jax
from andes_jax.commands.failure import CommandError
from andes_jax.commands.options import takes_settings
from andes_jax.commands.progress import progress_line
from andes_jax.config import Config
from andes_jax.request import QoeTarget, Tier

if TYPE_CHECKING:
    from andes_jax.build import BuiltEngine
    from andes_jax.remote.description import Description
    from server.context import ServerContext, ServerSettings


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
    from server.serve import serve as serve_until_told

    # Looked for and taken before the model is loaded, or a long start could end with a port that is in use.
    loop_factory(config.server.event_loop)
    try:
        bound = bind(server_settings(config))
    except BindError as error:
        raise CommandError(str(error)) from error
    started = time.monotonic()
    try:
        with end_on_sigterm():
            context, words = _front_end(config) if config.server.engine is not None else _whole(config)
    except BaseException:
        bound.release()  # later it is the server that gives the addresses back
        raise

    def announce(urls: tuple[str, ...]) -> None:
        lines = [f"{context.model_id} is ready after {time.monotonic() - started:.0f} s: {words}"]
        lines += [f"listening on {url} ({_protocols(url)}); stop with Ctrl-C" for url in urls]
        if not config.server.api_keys and config.server.host not in ("127.0.0.1", "localhost", "::1"):
            lines.append("no API keys are set: everyone who reaches this address is served (--api-keys)")
        print("\n".join(lines), file=sys.stderr, flush=True)

    raise typer.Exit(serve_until_told(context, bound, announce=announce))


def _protocols(url: str) -> str:
    return "gRPC" if url.startswith("grpc") else "HTTP/1.1 and HTTP/2"


def _whole(config: Config) -> tuple[ServerContext, str]:
    """An engine in this process, and words about it."""
    built = build(config)
    return server_context(config, built), built.description


def _front_end(config: Config) -> tuple[ServerContext, str]:
    """A front end of an engine elsewhere, and words about it."""
    from andes_jax.commands.front_end import connect

    with progress_line() as progress:
        remote, tokenizer, chat_template, found = connect(config, progress)
    from server.context import ServerContext

    context = ServerContext(
        engine=remote,
        tokenizer=tokenizer,
        chat_template=chat_template,
        model_id=found.model,
        settings=server_settings(config),
        clock=remote.clock,
        created_s=int(time.time()),
        fingerprint=found.fingerprint,
        compiles_after_ready=remote.compiles_after_ready,
        expectations=found.expectations,
    )
    return context, f"a front end of {remote.address}, {found.text}"


def log_to_stderr(config: Config) -> None:
    """Log what is serious enough for the settings."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("andes_jax").setLevel(config.server.log_level.upper())


def build(config: Config) -> BuiltEngine:
    """An engine, showing on stderr how far it is."""
    from andes_jax.build import build_engine

    with progress_line() as progress:
        return build_engine(config, progress=progress)


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack, as Ctrl-C does, so that what was taken is given back."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def server_settings(config: Config) -> ServerSettings:
    """The server's part of the settings in the server's own terms."""
    from server.context import ServerSettings

    chosen = config.server
    return ServerSettings(
        host=chosen.host,
        port=chosen.port,
        unix_socket=chosen.unix_socket,
        certfile=chosen.certfile,
        keyfile=chosen.keyfile,
        insecure_port=chosen.insecure_port,
        grpc_port=chosen.grpc_port,
        api_keys=chosen.api_keys,
        event_loop=chosen.event_loop,
        cors_origins=chosen.cors_origins,
        max_body_bytes=chosen.max_body_bytes,
        max_pending_body_bytes=chosen.max_pending_bytes,
        body_timeout_s=chosen.body_timeout,
        send_stall_s=chosen.stall_timeout,
        unread_timeout_s=chosen.timeout_ms / 1000,
        keep_alive_s=chosen.keep_alive,
        chunk_bytes=chosen.chunk_size,
        send_interval_s=chosen.send_interval_ms / 1000,
        adaptive_chunks=chosen.adaptive_chunks,
        max_choices=chosen.max_choices,
        max_prompts=chosen.max_prompts,
        default_max_tokens=chosen.default_max_tokens,
        shutdown_timeout_s=chosen.shutdown_timeout,
        request_log=chosen.request_log,
        profile_streaming=chosen.profile_streaming,
    )


def server_context(config: Config, built: BuiltEngine) -> ServerContext:
    """What the server is given of a built engine."""
    from server.context import ServerContext

    description = describe(config, built)
    return ServerContext(
        engine=built.engine,
        tokenizer=built.tokenizer,
        chat_template=built.chat_template,
        model_id=description.model,
        settings=server_settings(config),
        created_s=int(time.time()),
        fingerprint=description.fingerprint,
        compiles_after_ready=built.compiles_after_ready,
        watch_steps=built.watch_steps,
        expectations=description.expectations,
    )


def describe(config: Config, built: BuiltEngine) -> Description:
    """What a front end is told of a built engine, whether it is in this process or not."""
    from andes_jax.remote.description import Description

    readers = config.scheduling
    parts = f"{built.model_id} {built.description} {andes_jax.__version__}"
    return Description(
        version=andes_jax.__version__,
        model=config.server.model_name or built.model_id,
        identity=built.identity,
        text=built.description,
        fingerprint=f"andes-jax-{hashlib.sha256(parts.encode()).hexdigest()[:12]}",
        expectations={
            Tier.REALTIME: QoeTarget(readers.realtime_ttft, readers.realtime_speed),
            Tier.STREAMING: QoeTarget(readers.streaming_ttft, readers.streaming_speed),
        },
    )
