"""andes_jax.cli with andes_jax.commands.options, .failure, .progress, and what of the commands needs no model."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import typer
from typer.testing import CliRunner

import andes_jax
from andes_jax.cli import app
from andes_jax.commands.failure import CommandError, report
from andes_jax.commands.options import bounds_words, takes_settings, type_words
from andes_jax.config import ConfigError
from andes_jax.request import Refusal
from andes_jax.settings import SECTIONS, EngineSettings, SchedulingSettings, ServerSettings

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


def program(*arguments: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "andes_jax.cli", *arguments], capture_output=True, text=True, timeout=120, **kwargs
    )


def test_help_is_quick_because_it_loads_no_arrays():
    code = (
        "import sys; sys.argv = ['andes-jax', '--help']\n"
        "from andes_jax.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'transformers', 'tokenizers', 'orbax', 'flax', 'starlette', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    best = 60.0
    for _ in range(3):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=WIDE, timeout=60)
        best = min(best, time.perf_counter() - started)
        assert done.returncode == 0, done.stderr
        assert "serve" in done.stdout and "convert" in done.stdout
    assert best < 3  # 0.5 s on an idle machine


def test_version_is_that_of_the_package():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output.strip()) == (0, f"andes-jax {andes_jax.__version__}")


def test_serve_has_a_described_flag_for_every_setting():
    result = CliRunner().invoke(app, ["serve", "--help"], env=WIDE)
    assert result.exit_code == 0
    for model in SECTIONS.values():
        for field, info in model.model_fields.items():
            if field != "source":
                assert "--" + field.replace("_", "-") in result.output
                assert " ".join((info.description or "").split()[:4]) in result.output
    assert "Bounds: 1 … 1024." in result.output and "variables ANDES_ENGINE_…" in result.output
    assert "Default: 16.0 MiB." in result.output


def settled_by(*arguments: str, model="argument"):
    """The Config that a command with all settings receives."""
    received = []
    probe = typer.Typer(pretty_exceptions_enable=False)

    @probe.command()
    @takes_settings(*SECTIONS, model=model)
    def command(config, own: int = 1):
        received.append((config, own))

    result = CliRunner().invoke(probe, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return received[0]


def test_flags_reach_the_settings():
    config, own = settled_by(
        *("model.gguf", "--port", "9", "--policy", "fcfs", "--no-prefix-cache", "--kv-pool-bytes", "1MiB"),
        *("--api-keys", "a,b", "--alpha", "0.5", "--own", "7"),
    )
    assert (config.model.source, config.server.port, config.scheduling.policy, own) == ("model.gguf", 9, "fcfs", 7)
    assert (config.engine.prefix_cache, config.engine.kv_pool_bytes) == (False, 2**20)
    assert (config.server.api_keys, config.scheduling.alpha) == (("a", "b"), 0.5)


def test_variables_and_files_reach_the_settings_and_flags_win(monkeypatch):
    monkeypatch.setenv("ANDES_SERVER_PORT", "7")
    assert settled_by("--config", "low-memory")[0].server.port == 7
    assert settled_by("--config", "low-memory")[0].engine.max_sequences == 4
    assert settled_by("--port", "8", "--model", "m", model="option")[0].server.port == 8


def test_a_bad_flag_is_a_config_error():
    with pytest.raises(ConfigError, match="server.port = '99999' .from --port"):
        settled_by("--port", "99999")


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["serve", "--port", "99999"], 2, ["server.port", "--port"]),
        (["serve", "--prot", "1"], 2, ["--prot"]),
        (["serve", "--config", "nowhere.yaml"], 2, ["nowhere.yaml"]),
        (["serve", "--engine-key", "k"], 2, ["server.engine_key", "server.engine:"]),
        (["serve", "--engine", "127.0.0.1:1", "--engine-ca", "none.pem"], 1, ["none.pem"]),
        (["engine", "--grpc", "nowhere"], 2, ["nowhere", "HOST:PORT"]),
        (["engine", "--port", "1"], 2, ["--port"]),
        (["serve", "--api-keys", ""], 2, ["server.api_keys", "--api-keys", "leave it out"]),
        (["generate", ""], 2, ["empty"]),
        (["generate", "x", "--raw", "--system", "y"], 2, ["--raw"]),
        (["check", "--max-model-len", "100000", "--kv-pool-bytes", "0"], 2, ["engine.kv_pool_bytes"]),
        (["generate", "x", "--max-model-len", "100000"], 1, ["model.max_model_len", "8192"]),
        (["frobnicate"], 2, ["frobnicate"]),
        (["convert", "missing.gguf", "missing-too"], 1, ["missing.gguf"]),
    ],
)
def test_failures_are_words_and_an_exit_code(tmp_path, arguments, code, parts):
    (tmp_path / "something").write_text("")
    done = program(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert all(part in done.stderr for part in parts), done.stderr


@pytest.mark.parametrize(("command", "platform"), [(["check"], "cuda"), (["generate", "x"], "nope")])
def test_a_backend_that_cannot_start_is_one_line_with_a_way_out(tmp_path, command, platform):
    environ = os.environ | {"JAX_PLATFORMS": platform, "COLUMNS": "300", "XDG_CACHE_HOME": str(tmp_path)}
    done = program(*command, cwd=tmp_path, env=environ)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "JAX_PLATFORMS=cpu" in said, said
    assert f"JAX_PLATFORMS={platform}" in said and "unexpected" not in said and "Traceback" not in said, said


@pytest.mark.parametrize(
    ("flag", "value", "parts"),
    [
        ("--kv-pool-bytes", "100TiB", ["100.0 TiB of cache", "--kv-pool-bytes"]),
        ("--compile-cache-dir", "/proc/x", ["/proc/x", "cannot be written", "--compile-cache-dir"]),
    ],
)
def test_what_the_machine_cannot_hold_is_refused_by_the_name_of_the_setting(tmp_path, flag, value, parts):
    done = program("generate", "x", flag, value, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert all(part in done.stderr for part in parts) and "unexpected" not in done.stderr, done.stderr


SPILL = """
import andes_jax.cli
@andes_jax.cli.app.command()
def spill(times: int):
    for _ in range(times):
        print("a reply")
andes_jax.cli.main()
"""


@pytest.mark.parametrize("times", ["1", "100000"])
def test_a_reader_that_leaves_ends_the_program_as_in_any_pipe(times):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", SPILL, "spill", times], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_traceback_is_there_for_those_who_ask(tmp_path):
    assert "Traceback" in program("serve", "--port", "99999", "--log-level", "debug", cwd=tmp_path).stderr
    assert "Traceback" in program("serve", "--port", "99999", "--log-level=debug", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("server.port is bad"), 2, "andes-jax: server.port is bad"),
        (CommandError("no\nprompt"), 1, "andes-jax: no prompt"),
        (Refusal("too long", "context_length_exceeded"), 1, "andes-jax: too long"),
        (OSError(98, "Address already in use"), 1, "andes-jax: [Errno 98] Address already in use"),
        (FileNotFoundError(2, "No such file or directory", "log"), 1, "andes-jax: log: No such file or directory"),
        (KeyError("x"), 1, "andes-jax: unexpected KeyError: 'x' (ANDES_DEBUG=1 shows where)"),
    ],
)
def test_reports_are_one_line(capsys, error, code, line):
    assert report(error, ["andes-jax"]) == code
    assert capsys.readouterr().err == line + "\n"


def test_types_and_bounds_are_shown_in_words():
    fields = EngineSettings.model_fields
    assert type_words(fields["kv_pool_bytes"]) == "SIZE" and type_words(fields["page_tokens"]) == "INTEGER"
    assert type_words(SchedulingSettings.model_fields["policy"]) == "three_tier|fcfs|round_robin|andes_paper"
    assert type_words(ServerSettings.model_fields["port"]) == "INTEGER"
    assert bounds_words(fields["max_sequences"]) == "1 … 1024" and bounds_words(fields["kv_pool_bytes"]) == "at least 1"
    assert bounds_words(SchedulingSettings.model_fields["tier_lift"]) == "above 0 … 86400"
    assert bounds_words(fields["warmup"]) == ""
