"""Waiting for what another thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.server.live import LiveServer


def wait_for(condition: Callable[[], object], timeout_s: float = 5.0) -> bool:
    """Whether the condition comes to hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def assert_idle(server: LiveServer) -> None:
    """Everything that counts calls is back at nothing."""
    wait_for(lambda: not any(server.counts().values()))
    assert server.counts() == dict.fromkeys(server.counts(), 0)
