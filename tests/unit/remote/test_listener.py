"""Addresses are tried early, and said in words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from andes_jax.failure import UsageError
from andes_jax.remote.listener import Listener, ListenError, ListenSettings, check_address
from tests.unit.remote.parts import front_end, served


@pytest.mark.parametrize("address", ["nowhere", "host:", ":1", "host:port", "host:99999"])
def test_what_is_no_address_is_wrong_use(address):
    with pytest.raises(UsageError, match="HOST:PORT"):
        check_address(address)


def test_a_taken_address_is_said_before_and_after():
    with served() as server:
        with pytest.raises(ListenError, match="in use"):
            check_address(server.address)

        async def listen() -> None:
            await Listener(ListenSettings(server.address)).start([])

        with pytest.raises(ListenError, match="cannot serve gRPC on"):
            asyncio.run(listen())
    check_address("unix:anything")


def test_unix_sockets_serve(tmp_path: Path):
    with served(address=f"unix:{tmp_path}/e.sock") as server, front_end(server.address) as remote:
        assert server.url == server.address and remote.state == "ready"


def test_a_certificate_that_cannot_be_read_is_said(tmp_path: Path):
    missing = tmp_path / "none.pem"

    async def listen() -> None:
        await Listener(ListenSettings("127.0.0.1:0", missing, missing)).start([])

    with pytest.raises(ListenError, match=r"none\.pem"):
        asyncio.run(listen())


def test_tls_between_front_end_and_engine(tmp_path: Path):
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    from tests.unit.remote.parts import free_address

    address = "localhost:" + free_address().rpartition(":")[2]
    keys = {"certfile": tmp_path / "cert.pem", "keyfile": tmp_path / "key.pem", "api_keys": ("k",)}
    with (
        served(address=address, **keys) as server,
        front_end(address, authority=tmp_path / "ca.pem", key="k") as remote,
    ):
        assert server.url.startswith("grpcs://") and remote.statistics().generated_tokens == 0
