"""A gRPC server with what all of ours have: TLS, keys, health checks and reflection."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from andes_jax.failure import UsageError, UserError
from andes_jax.remote.keys import fault_of_key

PING_S = 10  # how often a silent peer is asked whether it is still there
PING_TIMEOUT_S = 5
HEALTH = "grpc.health.v1.Health"
_OPEN = f"/{HEALTH}/"  # needs no key


class ListenError(UserError):
    """An address that cannot be listened on, or a certificate that cannot be used: one line with both."""


@dataclass(frozen=True)
class ListenSettings:
    """Where a gRPC server listens, and who may call it."""

    address: str  # HOST:PORT, where port 0 lets the system choose, or unix:PATH
    certfile: Path | None = None  # with keyfile: TLS
    keyfile: Path | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)  # none leaves the server open
    max_message_bytes: int = 256 * 1024 * 1024  # of one message that comes in


class Listener:
    """One server. To be made and used inside its event loop."""

    def __init__(self, settings: ListenSettings) -> None:
        self._settings = settings
        options = [
            ("grpc.so_reuseport", 0),  # or two servers could share an address unawares
            ("grpc.max_receive_message_length", settings.max_message_bytes),
            ("grpc.keepalive_time_ms", PING_S * 1000),
            ("grpc.keepalive_timeout_ms", PING_TIMEOUT_S * 1000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", PING_S * 500),
        ]
        keys = tuple(key.encode() for key in settings.api_keys)
        self.server = grpc.aio.server(interceptors=[_KeyCheck(keys)], options=options)
        self.health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.server)

    async def start(self, services: Sequence[str]) -> str:
        """Take calls for services that were added to `server`; the address as URL. Raises ListenError."""
        reflection.enable_server_reflection([*services, HEALTH, reflection.SERVICE_NAME], self.server)
        settings = self._settings
        scheme = "grpc" if settings.certfile is None else "grpcs"
        try:
            if settings.certfile is None or settings.keyfile is None:
                port = self.server.add_insecure_port(settings.address)
            else:
                pair = (settings.keyfile.read_bytes(), settings.certfile.read_bytes())
                port = self.server.add_secure_port(settings.address, grpc.ssl_server_credentials([pair]))
        except (RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            raise ListenError(f"cannot serve gRPC on {settings.address}: {reason}") from error
        await self.server.start()
        for service in ("", *services):
            await self.health.set(service, health_pb2.HealthCheckResponse.SERVING)
        if settings.address.startswith("unix:"):
            return settings.address
        return f"{scheme}://{settings.address.rpartition(':')[0]}:{port}"

    async def drain(self) -> None:
        """Say to whoever asks that nothing new should come."""
        await self.health.enter_graceful_shutdown()

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and end those that still run after so many seconds."""
        await self.server.stop(grace_s)


def check_address(address: str) -> None:
    """Say early that an address cannot be had, before anything slow is begun. Raises UsageError or ListenError.

    It is only tried, not held: gRPC takes no sockets of ours.
    """
    if address.startswith("unix:"):
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 65536):
        raise UsageError(f"{address!r} is no address: give HOST:PORT, such as 127.0.0.1:8100, or unix:PATH")
    host = host.strip("[]")
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, int(port)))
            sock.listen()
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error


class _KeyCheck(grpc.aio.ServerInterceptor):
    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self._keys = keys

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        handler = await continuation(details)
        if handler is not None and self._keys and not details.method.startswith(_OPEN):
            given = [_bytes(value) for name, value in details.invocation_metadata if name == "authorization"]
            fault = fault_of_key(given, self._keys)
            if fault is not None:
                return _refusing(fault, handler.request_streaming)
        return handler


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _refusing(message: str, request_streaming: bool) -> Any:
    async def refuse(request: Any, context: grpc.aio.ServicerContext) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, message)

    if request_streaming:  # a handler for one message would wait for it
        return grpc.stream_unary_rpc_method_handler(refuse)
    return grpc.unary_unary_rpc_method_handler(refuse)
