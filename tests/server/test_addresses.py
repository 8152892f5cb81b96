"""Addresses that can be had, and those that cannot."""

from __future__ import annotations

import socket

import pytest

from server.addresses import BindError, bind
from server.context import ServerSettings


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
    bound.sockets.insecure_sockets[1].listen()
    with pytest.raises(BindError, match="server.sock"):
        bind(ServerSettings(port=0, unix_socket=path))
    bound.release()
    assert not path.exists()


def test_a_file_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(BindError, match="notes.txt"):
        bind(ServerSettings(port=0, unix_socket=path))
    assert path.read_text() == "mine"
