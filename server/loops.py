"""The event loop that a server runs in.

uvloop spends less time of its own on every callback and write than asyncio's loop, and a server of many streams spends
its time on those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from andes_jax.failure import UserError
from andes_jax.settings import EventLoopName

try:
    import uvloop
except ImportError:  # there is none for this platform
    uvloop = None  # type: ignore[assignment]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class MissingLoopError(UserError):
    """The event loop that was asked for is not installed: one line with what to do."""


def loop_factory(name: EventLoopName) -> LoopFactory:
    """What makes the loop, for asyncio.Runner. `auto` takes uvloop where it is; raises MissingLoopError."""
    if name == "asyncio" or (name == "auto" and uvloop is None):
        return asyncio.new_event_loop
    if uvloop is None:
        raise MissingLoopError("the event loop uvloop is not installed: pip install uvloop, or take asyncio")
    return uvloop.new_event_loop
