"""andes_jax.commands.serve: starts that fail or are ended leave nothing behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest


def test_a_taken_port_is_told_before_the_model_is_loaded():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "andes_jax.cli", "serve", "absent.gguf", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and port in done.stderr and "in use" in done.stderr


def test_a_start_that_fails_gives_the_unix_socket_back(tmp_path):
    path = tmp_path / "s.sock"
    command = [sys.executable, "-m", "andes_jax.cli", "serve", "absent.gguf", "--port", "0", "--unix-socket", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 1 and "absent.gguf" in done.stderr
    assert not path.exists()


SLOW_START = """
import sys, time
import andes_jax.build, andes_jax.cli
def load(config, progress):
    progress("loading")
    time.sleep(60)
andes_jax.build.build_engine = load
andes_jax.cli.main()
"""


@pytest.mark.parametrize(
    ("number", "code", "more"),
    [(signal.SIGTERM, 143, []), (signal.SIGINT, 130, []), (signal.SIGTERM, 143, ["--http-workers", "2"])],
)
def test_a_signal_during_the_load_ends_it_and_gives_the_unix_socket_back(tmp_path, number, code, more):
    path = tmp_path / "s.sock"
    command = [sys.executable, "-c", SLOW_START, "serve", "--port", "0", "--unix-socket", str(path), *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and "loading" in process.stderr.readline()
        assert path.exists()
        process.send_signal(number)
        assert process.wait(30) == code
        assert "Traceback" not in process.stderr.read()
    assert not path.exists()


def test_a_process_for_connections_that_cannot_begin_ends_the_start(tmp_path):
    """Its engine is elsewhere, and does not answer as one does."""
    path = tmp_path / "s.sock"
    command = [sys.executable, "-m", "andes_jax.cli", "serve", "absent.gguf", "--port", "0", "--unix-socket", str(path)]
    command += ["--engine", f"unix:{tmp_path}/none", "--http-workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 1 and "absent.gguf" in done.stderr and "Traceback" not in done.stderr
    assert not path.exists()
