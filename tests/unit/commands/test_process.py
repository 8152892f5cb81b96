"""andes_jax.commands.process: how a process that serves is ended."""

from __future__ import annotations

import os
import signal

import pytest

from andes_jax.commands.process import end_on_sigterm


def test_sigterm_unwinds_the_stack_and_what_it_did_before_comes_back():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, end_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
