"""Repairs that keep one bad client or stream from hurting the others, for exactly one release of Hypercorn.

`install` replaces three attributes of Hypercorn's modules; everything else is ordinary subclassing. The classes reach
into internals, so another release is refused at start rather than served with repairs that may no longer fit.
"""

from __future__ import annotations

from importlib.metadata import version

import hypercorn.asyncio.run
import hypercorn.protocol
import hypercorn.protocol.h2

from server.hypercorn_repairs.buffer import FairStreamBuffer
from server.hypercorn_repairs.config import RepairedConfig
from server.hypercorn_repairs.h2_protocol import FairH2Protocol
from server.hypercorn_repairs.tcp_server import FairTCPServer

__all__ = ["REPAIRED_VERSION", "RepairedConfig", "UnsupportedHypercornError", "install"]

REPAIRED_VERSION = "0.18.0"


class UnsupportedHypercornError(RuntimeError):
    """The installed Hypercorn is not the release that the repairs are written for."""


def install() -> None:
    """Make Hypercorn use the repaired classes. Idempotent; raises UnsupportedHypercornError on another release.

    Servers started afterwards must be given a `RepairedConfig`.
    """
    installed = version("hypercorn")
    if installed != REPAIRED_VERSION:
        raise UnsupportedHypercornError(
            f"Hypercorn {installed} is installed, but its repairs are written for {REPAIRED_VERSION}: "
            f"pip install 'hypercorn=={REPAIRED_VERSION}'"
        )
    hypercorn.protocol.h2.StreamBuffer = FairStreamBuffer  # type: ignore[misc]
    hypercorn.protocol.H2Protocol = FairH2Protocol  # type: ignore[misc]
    hypercorn.asyncio.run.TCPServer = FairTCPServer  # type: ignore[misc]
