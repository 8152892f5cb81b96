"""andes_jax.commands.context: what the server is given of the settings and of the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from andes_jax.commands.context import server_context, server_settings
from andes_jax.config import load_config
from andes_jax.request import QoeTarget, Tier
from andes_jax.settings import ServerSettings as Settings

OTHER = {
    "host": "::1",
    "port": 1,
    "api_keys": "a,b",
    "certfile": "c.pem",
    "keyfile": "k.pem",
    "insecure_port": 2,
    "unix_socket": "s.sock",
    "cors_origins": "*",
    "shutdown_timeout": 3,
    "body_timeout": 4,
    "stall_timeout": 5,
    "timeout_ms": 6,
    "keep_alive": 6,
    "max_body_bytes": 7000,
    "max_pending_bytes": 8000,
    "max_choices": 9,
    "max_prompts": 10,
    "default_max_tokens": 11,
    "data_dir": "data",
    "max_file_bytes": 12_000,
    "request_log": "requests.jsonl",
    "adaptive_chunks": False,
    "event_loop": "asyncio",
    "chunk_size": 2048,
    "send_interval_ms": 20,
    "profile_streaming": True,
}
# Used by the command itself.
NOT_THE_SERVERS = {"http_workers", "model_name", "log_level", "engine", "engine_ca", "engine_key", "grpc_port"}


def settle(**server):
    return load_config(environ={}, flags={f"server.{field}": value for field, value in server.items()})


def test_every_setting_reaches_the_server():
    assert set(OTHER) | NOT_THE_SERVERS == set(Settings.model_fields)
    standard, tls = server_settings(settle()), {"certfile": "c.pem", "keyfile": "k.pem"}
    for field in OTHER.keys() - tls.keys() - {"insecure_port"}:
        assert server_settings(settle(**{field: OTHER[field]})) != standard, field
    both = server_settings(settle(**tls))
    assert replace(both, certfile=None, keyfile=None) == standard
    assert server_settings(settle(**tls, insecure_port=2)) == replace(both, insecure_port=2)
    assert (both.certfile, both.keyfile) == (Path("c.pem"), Path("k.pem"))


def test_defaults_of_the_file_are_the_servers_own():
    from server.context import ServerSettings

    chosen = server_settings(settle())
    assert chosen == ServerSettings(data_dir=chosen.data_dir)  # the user's, which a server by itself does not touch


def built(**changes):
    parts = {"engine": None, "tokenizer": None, "chat_template": None, "model_id": "m", "description": "d"}
    parts |= {"identity": "i", "compiles_after_ready": lambda: 3, "watch_steps": lambda listener: None}
    return SimpleNamespace(**parts | changes)


def test_the_context_names_the_model_and_what_changes_its_outputs():
    context = server_context(settle(), built())
    assert (context.model_id, context.compiles_after_ready()) == ("m", 3)
    assert server_context(settle(model_name="mine"), built()).model_id == "mine"
    assert context.fingerprint == server_context(settle(port=9), built()).fingerprint
    assert context.fingerprint != server_context(settle(), built(description="bfloat16")).fingerprint


def test_the_context_has_what_readers_expect():
    from server.context import ServerContext

    said = {"realtime_ttft": 2, "realtime_speed": 3, "streaming_ttft": 4, "streaming_speed": 5}
    config = load_config(environ={}, flags={f"scheduling.{field}": value for field, value in said.items()})
    assert server_context(config, built()).expectations == {
        Tier.REALTIME: QoeTarget(2, 3),
        Tier.STREAMING: QoeTarget(4, 5),
    }
    standard = ServerContext(engine=None, tokenizer=None, chat_template=None, model_id="m")
    assert server_context(settle(), built()).expectations == standard.expectations


@pytest.mark.parametrize("missing", ["certfile", "keyfile"])
def test_half_a_certificate_is_refused(missing):
    with pytest.raises(Exception, match="go together"):
        settle(**{missing: "x.pem"})
