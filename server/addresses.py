"""Where the server listens: addresses are taken before anything slow is begun."""

from __future__ import annotations

import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypercorn.config import Sockets

from server.context import ServerSettings
from server.hypercorn_repairs import RepairedConfig, install

LAST_EVENTS_S = 2.0  # how long the last events of ended replies may take to leave
UNLIMITED = 2**31 - 1


class BindError(Exception):
    """An address that cannot be listened on: one line with the address and the reason."""


@dataclass(frozen=True)
class TakenPath:
    """A path in the file system where a Unix socket of ours was made."""

    path: Path
    inode: int

    def unlink(self) -> None:
        """Remove our socket, and nothing that came to its place."""
        with suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self.inode:
                self.path.unlink()


@dataclass(frozen=True)
class BoundServer:
    """Addresses that are listened on. Connections wait there until somebody serves them."""

    config: RepairedConfig
    sockets: Sockets
    urls: tuple[str, ...]
    unix_socket: TakenPath | None

    def release(self) -> None:
        """Give the addresses back; to be called once, whether the server has run or not."""
        for sock in (*self.sockets.secure_sockets, *self.sockets.insecure_sockets):
            sock.close()
        if self.unix_socket is not None:
            self.unix_socket.unlink()


def bind(settings: ServerSettings) -> BoundServer:
    """Take the addresses, so that a long start does not end with a taken port. Raises BindError.

    Also raises UnsupportedHypercornError, before anything is taken.
    """
    install()
    config = _config(settings)
    if config.ssl_enabled:
        try:
            config.create_ssl_context()
        except OSError as error:  # ssl.SSLError too
            files = f"the certificate {settings.certfile} with the key {settings.keyfile}"
            raise BindError(f"cannot use {files}: {error}") from error
    taken: list[socket.socket] = []
    unix_socket = None
    try:
        taken.append(_take_port(settings.host, settings.port, config.backlog))
        if settings.insecure_port is not None:
            taken.append(_take_port(settings.host, settings.insecure_port, config.backlog))
        if settings.grpc_port is not None:
            _take_port(settings.host, settings.grpc_port, config.backlog).close()  # only tried: gRPC takes no sockets
        if settings.unix_socket is not None:
            sock, unix_socket = _take_path(settings.unix_socket, config.backlog)
            taken.append(sock)
    except BindError:
        for sock in taken:
            sock.close()
        raise
    secure = taken[:1] if config.ssl_enabled else []
    urls = [_url("https" if sock in secure else "http", sock) for sock in taken]
    return BoundServer(config, Sockets(secure, taken[len(secure) :], []), tuple(urls), unix_socket)


def adopt(settings: ServerSettings, sockets: Sockets, urls: tuple[str, ...]) -> BoundServer:
    """Addresses that another process has taken, and gives back: this one serves them too."""
    install()
    return BoundServer(_config(settings), sockets, urls, unix_socket=None)


def _take_port(host: str, port: int, backlog: int) -> socket.socket:
    """A listening socket: a port that is only bound can still be taken by others."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((host, port))
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise BindError(f"cannot listen on {_bracketed(host)}:{port}: {error.strerror or error}") from error
    sock.setblocking(False)
    return sock


def _take_path(path: Path, backlog: int) -> tuple[socket.socket, TakenPath]:
    """A listening Unix socket; one left by a server that is gone is replaced."""
    made = None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and not _somebody_listens(path):
            path.unlink()
        sock.bind(str(path))
        made = TakenPath(path, path.lstat().st_ino)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        if made is not None:
            made.unlink()
        raise BindError(f"cannot listen on {path}: {error.strerror or error}") from error
    sock.setblocking(False)
    return sock, made


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # or a server whose queue is full would hold us
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            return True
    return True


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _url(scheme: str, sock: socket.socket) -> str:
    address = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return f"unix:{address}"
    return f"{scheme}://{_bracketed(address[0])}:{address[1]}"


def _config(settings: ServerSettings) -> RepairedConfig:
    config = RepairedConfig()
    if settings.certfile is not None and settings.keyfile is not None:
        config.certfile, config.keyfile = str(settings.certfile), str(settings.keyfile)
    config.stall_timeout_s = settings.send_stall_s
    config.keep_alive_timeout = settings.keep_alive_s
    config.graceful_timeout = LAST_EVENTS_S + 1
    config.keep_alive_max_requests = UNLIMITED  # Hypercorn would cut the streams in flight
    config.h2_max_concurrent_streams = 256
    config.h2_max_header_list_size = 16 * 1024
    config.h11_max_incomplete_size = 16 * 1024
    config.ssl_handshake_timeout = 10
    config.backlog = 1024
    config.websocket_max_message_size = 64 * 1024
    config.accesslog = None
    config.loglevel = "WARNING"
    config.include_server_header = False
    return config
