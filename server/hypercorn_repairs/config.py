"""Hypercorn's settings with what the repairs need beside them."""

from __future__ import annotations

from asyncio import StreamWriter

from hypercorn.config import Config


class RepairedConfig(Config):
    """One server's settings, and the connections it has open at the moment."""

    stall_timeout_s: float = 30.0  # a client that reads nothing for so long loses its stream
    close_timeout_s: float = 5.0  # a client that does not take part in closing is cut off after so long

    def __init__(self) -> None:
        super().__init__()
        self.connections: set[StreamWriter] = set()

    def abort_connections(self) -> None:
        """Cut every open connection without a farewell."""
        for connection in list(self.connections):
            connection.transport.abort()
