"""Starts and stops the servers that are compared, one at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

STOP_GRACE_S = 30.0
POLL_S = 0.5


class PeerError(RuntimeError):
    """A server could not be started, or its address was already taken."""


@dataclass(frozen=True)
class Peer:
    """A server to compare: its base address without /v1, and the shell command that runs it in the foreground."""

    name: str
    url: str
    command: str

    @staticmethod
    def parse(text: str) -> Peer:
        """From NAME=URL=COMMAND; the command may itself contain equals signs."""
        parts = text.split("=", 2)
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"expected NAME=URL=COMMAND, got {text!r}")
        return Peer(parts[0], parts[1].rstrip("/"), parts[2])


def _status(url: str) -> int:
    """HTTP status of a GET, or 0 when nobody answers."""
    try:
        return httpx.get(url, timeout=5.0, trust_env=False).status_code
    except httpx.HTTPError:
        return 0


def _is_ready(peer: Peer) -> bool:
    """Lists models, and says nothing against it at /health (which not every server has)."""
    return _status(f"{peer.url}/v1/models") == 200 and _status(f"{peer.url}/health") in (200, 404)


def _await_ready(peer: Peer, process: subprocess.Popen[bytes], timeout_s: float, log: Path) -> None:
    deadline = time.monotonic() + timeout_s
    while not _is_ready(peer):
        if process.poll() is not None:
            raise PeerError(f"{peer.name} ended with status {process.returncode}; see {log}")
        if time.monotonic() > deadline:
            raise PeerError(f"{peer.name} was not ready after {timeout_s:.0f} s; see {log}")
        time.sleep(POLL_S)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    """Signals the server's whole process group; False once no member is left."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Asks the group to end, then makes it: a worker left behind would compete with the next server."""
    _signal_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_GRACE_S)
    deadline = time.monotonic() + STOP_GRACE_S
    # Ended members that nobody has waited for still count as members, so this may not go on for ever.
    while _signal_group(process, signal.SIGKILL) and time.monotonic() < deadline:
        process.poll()
        time.sleep(POLL_S)


@contextmanager
def running(peer: Peer, timeout_s: float, log: Path) -> Iterator[int]:
    """Runs `peer` until the block ends and yields its process id; its output goes to `log`.

    Raises PeerError if something already answers at its address, or if it is not ready within `timeout_s` seconds.
    """
    if _status(f"{peer.url}/v1/models"):
        raise PeerError(f"something already answers at {peer.url}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", peer.command], stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _await_ready(peer, process, timeout_s, log)
            yield process.pid
        finally:
            _stop(process)


def server_version(peer: Peer) -> str:
    """What the running server says of its version at /version; empty if it says nothing."""
    try:
        response = httpx.get(f"{peer.url}/version", timeout=5.0, trust_env=False)
        return str(response.json()["version"]) if response.status_code == 200 else ""
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return ""
