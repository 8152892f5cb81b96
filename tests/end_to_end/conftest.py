"""Servers of the embedded model, started once for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from andes_jax.build import build_engine
from andes_jax.commands.context import server_context
from andes_jax.config import load_config
from tests.end_to_end.engines import golden
from tests.end_to_end.server_process import CONTEXT, PROGRAMS, SEQUENCES, ServerProcess, server_process
from tests.server.live import LiveServer, live_server


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """`andes-jax serve`, as its users start it."""
    with server_process() as running:
        yield running


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """The same in a thread of the tests, which can look inside and break things."""
    flags = {
        "model.dtype": "float32",
        "model.max_model_len": CONTEXT,
        "engine.max_sequences": SEQUENCES,
        "engine.compile_cache_dir": str(PROGRAMS),
        "server.port": 0,
        "server.data_dir": str(tmp_path_factory.mktemp("data")),
    }
    config = load_config(flags=flags, environ={})
    built = build_engine(config)
    with live_server(server_context(config, built)) as running:
        yield running
    built.engine.stop(0)


@pytest.fixture(scope="session")
def cases() -> dict[str, dict]:
    """The golden replies by name."""
    return {case["name"]: case for case in golden()["cases"]}
