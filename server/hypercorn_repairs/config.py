"""Hypercorn's settings with what the repairs need beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypercorn.config import Config

if TYPE_CHECKING:
    from server.hypercorn_repairs.tcp_server import FairTCPServer


class RepairedConfig(Config):
    """One server's settings, and the connections it has open at the moment."""

    stall_timeout_s: float = 30.0  # a client that reads nothing for so long loses its stream
    close_timeout_s: float = 5.0  # a client that does not take part in closing is cut off after so long

    def __init__(self) -> None:
        super().__init__()
        self.connections: set[FairTCPServer] = set()

    def abort_connections(self) -> None:
        """Cut every open connection without a farewell."""
        for connection in list(self.connections):
            connection.writer.transport.abort()
