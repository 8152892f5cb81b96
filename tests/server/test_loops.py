"""The event loop: chosen by name, and missing ones said."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from server import loops
from server.loops import MissingLoopError, loop_factory


async def kind() -> str:
    return type(asyncio.get_running_loop()).__module__.split(".")[0]


@pytest.mark.parametrize(("name", "module"), [("auto", "uvloop"), ("uvloop", "uvloop"), ("asyncio", "asyncio")])
def test_the_named_loop_runs(name, module):
    with asyncio.Runner(loop_factory=loop_factory(name)) as runner:
        assert runner.run(kind()) == module


def test_without_uvloop_auto_is_asyncio_and_uvloop_is_refused(monkeypatch):
    monkeypatch.setattr(loops, "uvloop", None)
    assert loop_factory("auto") is asyncio.new_event_loop
    with pytest.raises(MissingLoopError, match="pip install uvloop"):
        loop_factory("uvloop")


def test_a_server_runs_in_the_loop_that_was_asked_for(start):
    server = start()
    assert isinstance(server.loop, uvloop.Loop) == (server.context.settings.event_loop == "uvloop")
