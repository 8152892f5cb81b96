"""andes-jax generate as a program, with the embedded model."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "andes_jax.cli", "generate", "--temperature", "0", "--max-model-len", "512"]


def test_a_reply_ends_at_its_stop_text():
    command = [*COMMAND, "Why is the sky blue?", "--stop", " question", "--max-tokens", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert (done.returncode, done.stdout, done.stderr) == (0, "The answer to this\n", "")


@pytest.fixture
def heeds_ctrl_c():
    """Programs started in it heed Ctrl-C, also where a shell lets its background job, this one, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_reply(heeds_ctrl_c):
    command = [*COMMAND, "--raw", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,", "--max-tokens", "450"]  # it counts on
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(1) != b""
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert b"Traceback" not in process.stderr.read()
