"""The repairs are for one release."""

from __future__ import annotations

import hypercorn.asyncio.run
import hypercorn.protocol
import hypercorn.protocol.h2
import pytest

from server import hypercorn_repairs
from server.hypercorn_repairs import UnsupportedHypercornError, install


def test_another_release_is_refused_before_anything_changes(monkeypatch):
    names = (
        (hypercorn.protocol.h2, "StreamBuffer"),
        (hypercorn.protocol, "H2Protocol"),
        (hypercorn.asyncio.run, "TCPServer"),
    )
    for module, name in names:
        monkeypatch.setattr(module, name, object)
    monkeypatch.setattr(hypercorn_repairs, "version", lambda name: "0.19.0")
    with pytest.raises(UnsupportedHypercornError, match=r"0\.19\.0.*0\.18\.0"):
        install()
    assert all(getattr(module, name) is object for module, name in names)


def test_installing_twice_is_installing_once():
    install()
    first = hypercorn.protocol.H2Protocol
    install()
    assert hypercorn.protocol.H2Protocol is first
    assert first.__module__ == "server.hypercorn_repairs.h2_protocol"
