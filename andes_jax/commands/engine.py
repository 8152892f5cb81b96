"""andes-jax engine: an engine for front ends in other processes."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Annotated

import typer

from andes_jax.clock import WallClock
from andes_jax.commands.context import describe
from andes_jax.commands.options import takes_settings
from andes_jax.commands.process import build, end_on_sigterm, log_to_stderr
from andes_jax.config import Config

_ADDRESS = "Where front ends connect: HOST:PORT (port 0: the system chooses) or unix:PATH."


@takes_settings(
    "model",
    "engine",
    "scheduling",
    "server.api_keys",
    "server.certfile",
    "server.keyfile",
    "server.shutdown_timeout",
    "server.model_name",
    "server.log_level",
    model="argument",
)
def engine(
    config: Config, grpc: Annotated[str, typer.Option(metavar="HOST:PORT", help=_ADDRESS)] = "127.0.0.1:8100"
) -> None:
    """Run an engine for front ends in other processes, here or on other machines, by gRPC.

    Front ends are started with `andes-jax serve MODEL --engine HOST:PORT`, as many as are wanted. SIGTERM or Ctrl-C
    lets running replies finish, up to --shutdown-timeout.

    Examples:

      andes-jax engine model.gguf --grpc 0.0.0.0:8100 --certfile cert.pem --keyfile key.pem --api-keys "$KEY"
      andes-jax engine --grpc unix:engine.sock
    """
    log_to_stderr(config)
    from andes_jax.remote.host import host_engine
    from andes_jax.remote.listener import ListenSettings, check_address
    from andes_jax.remote.service import EngineService

    check_address(grpc)  # before the model is loaded, or a long start could end with a port that is in use
    started = time.monotonic()
    with end_on_sigterm():
        built = build(config)
    description = describe(config, built)
    chosen = config.server

    def announce(url: str) -> None:
        lines = [f"{description.model} is ready after {time.monotonic() - started:.0f} s: {description.text}"]
        lines.append(f"listening on {url} (gRPC); stop with Ctrl-C")
        local = grpc.startswith(("unix:", "127.0.0.1:", "localhost:", "[::1]:"))
        if not chosen.api_keys and not local:
            lines.append("no API keys are set: everyone who reaches this address is served (--api-keys)")
        print("\n".join(lines), file=sys.stderr, flush=True)

    settings = ListenSettings(grpc, chosen.certfile, chosen.keyfile, chosen.api_keys)
    code = asyncio.run(
        host_engine(
            built.engine,
            lambda: EngineService(built.engine, description, WallClock(), built.compiles_after_ready),
            settings,
            chosen.shutdown_timeout,
            announce,
        )
    )
    raise typer.Exit(code)
