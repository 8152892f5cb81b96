"""How many replies the batches of one process ask for at once."""

from __future__ import annotations

import asyncio

from andes_jax.batch_lines import BatchLine
from andes_jax.engine.contract import EngineLimits
from andes_jax.engine.door import places_of_batches

QUEUED_SHARE = 0.25  # of the engine's slots: so many replies wait beside those that run, so that no slot stays empty


class Places:
    """Places for replies, given to whoever came first. Belongs to one event loop."""

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @property
    def free(self) -> int:
        """Places that nobody has."""
        return self._free

    async def take(self, count: int) -> int:
        """Wait for so many places, or for all where that is more than there are; how many were taken."""
        count = min(count, self._total)
        async with self._turn:  # a large call is not passed by small ones for ever
            while self._free < count:
                self._freed.clear()
                await self._freed.wait()
            self._free -= count
        return count

    def give_back(self, count: int) -> None:
        """Let others have them."""
        self._free += count
        self._freed.set()


def places_at(limits: EngineLimits) -> int:
    """Places for the batches of a process that serves an engine with these limits."""
    wanted = limits.max_sequences + max(1, int(limits.max_sequences * QUEUED_SHARE))
    return max(1, min(wanted, places_of_batches(limits.max_live)))


def replies_to(line: BatchLine) -> int:
    """How many replies a call asks for, as far as that can be seen in a body that nobody has checked."""
    asked, prompt = line.body.get("n"), line.body.get("prompt")
    choices = asked if isinstance(asked, int) and asked > 0 else 1
    many = isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], str | list)
    return choices * (len(prompt) if many and isinstance(prompt, list) else 1)
