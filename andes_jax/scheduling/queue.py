"""Sequences that wait to be admitted, with their rows in the ledger at hand as one array."""

from __future__ import annotations

import numpy as np

from andes_jax.request import Tier
from andes_jax.scheduling.sequence import Sequence


class WaitingQueue:
    """An unordered set of sequences; adding and removing cost O(1)."""

    def __init__(self) -> None:
        self.members: list[Sequence] = []
        self.per_tier = [0] * len(Tier)
        self._rows = np.zeros(64, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.members)

    def __bool__(self) -> bool:
        return bool(self.members)

    @property
    def rows(self) -> np.ndarray:
        """Ledger rows [n], aligned with `members`; valid until the next add or remove."""
        return self._rows[: len(self.members)]

    def add(self, sequence: Sequence) -> None:
        """The sequence waits from now on; it has a ledger row."""
        assert sequence.row is not None
        place = len(self.members)
        if place == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[place] = sequence.row
        sequence.place = place
        self.members.append(sequence)
        self.per_tier[sequence.tier] += 1

    def remove(self, sequence: Sequence) -> None:
        """The sequence waits no longer; raises ValueError when it did not."""
        place = sequence.place
        if place is None:
            raise ValueError(f"{sequence.id} does not wait")
        last = self.members.pop()
        if last is not sequence:
            self.members[place] = last
            last.place = place
            self._rows[place] = self._rows[len(self.members)]
        sequence.place = None
        self.per_tier[sequence.tier] -= 1
