"""How a front end reaches its engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import grpc

from andes_jax.remote.listener import PING_S, PING_TIMEOUT_S

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0  # before connecting again; doubled each time


@dataclass(frozen=True)
class LinkSettings:
    """Where the engine is, and how to speak to it."""

    address: str  # HOST:PORT or unix:PATH
    authority: Path | None = None  # certificates, PEM, of which one signs the engine's; None: in the clear
    key: str | None = field(default=None, repr=False)


def open_channel(link: LinkSettings) -> grpc.Channel:
    """A channel that connects when it is used. Raises OSError for a file of certificates that cannot be read."""
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.keepalive_time_ms", PING_S * 1000),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_S * 1000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", int(FIRST_PAUSE_S * 1000)),
        ("grpc.max_reconnect_backoff_ms", int(LONGEST_PAUSE_S * 1000)),
    ]
    if link.authority is None:
        return grpc.insecure_channel(link.address, options)
    return grpc.secure_channel(link.address, grpc.ssl_channel_credentials(link.authority.read_bytes()), options)
