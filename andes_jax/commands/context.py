"""From settings and an engine to what the server is given, wherever the engine is."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import andes_jax
from andes_jax.config import Config
from andes_jax.request import QoeTarget, Tier

if TYPE_CHECKING:
    from andes_jax.build import BuiltEngine
    from andes_jax.remote.description import Description
    from server.context import ServerContext, ServerSettings


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
        data_dir=chosen.data_dir,
        max_file_bytes=chosen.max_file_bytes,
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


def front_end_context(config: Config, progress: Callable[[str], None]) -> tuple[ServerContext, str]:
    """What the server is given as a front end of `config.server.engine`, and words about that engine.

    Raises what `connect` does.
    """
    from andes_jax.commands.front_end import connect
    from server.context import ServerContext

    remote, tokenizer, chat_template, found = connect(config, progress)

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
