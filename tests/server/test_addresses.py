"""Addresses that can be had, and those that cannot."""

from __future__ import annotations

import asyncio
import socket

import pytest

from server.addresses import BindError, bind
from server.context import ServerSettings
from server.serve import Serving
from tests.server.parts import mk_context


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host", "2001:db8::7"])
def test_addresses_that_cannot_be_had(host):
    with pytest.raises(BindError, match="cannot listen on"):
        bind(ServerSettings(host=host, port=0))


def test_a_taken_second_port_gives_the_first_back():
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        free.bind(("127.0.0.1", 0))
        first, second = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        with pytest.raises(BindError, match=str(second)):
            bind(ServerSettings(port=first, insecure_port=second))
        bind(ServerSettings(port=first)).release()


def test_certificates_that_cannot_be_used(tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    for certfile in (bad, tmp_path / "none"):
        with pytest.raises(BindError, match="certificate"):
            bind(ServerSettings(port=0, certfile=certfile, keyfile=bad))


def test_port_zero_is_a_free_one_and_is_told():
    bound = bind(ServerSettings(port=0))
    [url] = bound.urls
    assert url.startswith("http://127.0.0.1:") and not url.endswith(":0")
    bound.release()


def test_unix_sockets(tmp_path):
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))  # left behind: nobody listens
    bound = bind(ServerSettings(port=0, unix_socket=path))
    assert bound.urls[1] == f"unix:{path}"
    with pytest.raises(BindError, match="server.sock"):
        bind(ServerSettings(port=0, unix_socket=path))
    bound.release()
    assert not path.exists()


def test_a_unix_socket_that_came_in_place_of_ours_stays(tmp_path):
    path = tmp_path / "server.sock"
    first = bind(ServerSettings(port=0, unix_socket=path))
    path.unlink()
    second = bind(ServerSettings(port=0, unix_socket=path))
    first.release()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    second.release()
    assert not path.exists()


def test_a_port_belongs_to_whoever_bound_it_first():
    bound = bind(ServerSettings(port=0))
    port = int(bound.urls[0].rsplit(":", 1)[1])
    with pytest.raises(BindError, match=f"{port}: Address already in use"):
        bind(ServerSettings(port=port))
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
    bound.release()
    bind(ServerSettings(port=port)).release()


async def test_connections_wait_while_the_model_is_loaded():
    context = mk_context()
    bound = bind(context.settings)
    port = int(bound.urls[0].rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    serving = Serving(context, bound, lambda urls: None)
    running = asyncio.create_task(serving.run())
    assert b'{"status":"ok"}' in await asyncio.wait_for(reader.read(), 5)
    writer.close()
    serving.on_signal(15)
    assert await asyncio.wait_for(running, 5) == 0


def test_a_file_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(BindError, match="notes.txt"):
        bind(ServerSettings(port=0, unix_socket=path))
    assert path.read_text() == "mine"
