"""Sequences that wait, kept as columns so that a policy ranks thousands of them without walking objects."""

from __future__ import annotations

import numpy as np

from andes_jax.request import Tier
from andes_jax.scheduling.priority import Columns, work_of
from andes_jax.scheduling.sequence import Sequence


class WaitingQueue:
    """An unordered set of sequences with their columns; adding and removing cost O(1)."""

    def __init__(self) -> None:
        self.rows: list[Sequence] = []
        self.per_tier = [0] * len(Tier)
        self._columns = self._empty(64)

    @staticmethod
    def _empty(rows: int) -> Columns:
        floats = [np.zeros(rows) for _ in range(4)]
        return Columns(np.zeros(rows, dtype=np.int64), *floats)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> Columns:
        """Views over the live rows, aligned with `rows`; valid until the next add or remove."""
        count = len(self.rows)
        return Columns(*(column[:count] for column in self._columns))

    def add(self, sequence: Sequence) -> None:
        """The sequence waits from now on."""
        row = len(self.rows)
        if row == len(self._columns.tier):
            grown = self._empty(2 * row)
            for old, new in zip(self._columns, grown, strict=True):
                new[:row] = old
            self._columns = grown
        tier, arrived_s, queued_s, order, work = self._columns
        tier[row] = sequence.tier
        arrived_s[row] = sequence.request.arrived_s
        queued_s[row] = sequence.queued_s
        order[row] = sequence.order
        work[row] = work_of(sequence)
        sequence.row = row
        self.rows.append(sequence)
        self.per_tier[sequence.tier] += 1

    def remove(self, sequence: Sequence) -> None:
        """The sequence waits no longer; raises ValueError when it did not."""
        row = sequence.row
        if row is None:
            raise ValueError(f"{sequence.id} does not wait")
        last = self.rows.pop()
        if last is not sequence:
            self.rows[row] = last
            last.row = row
            end = len(self.rows)
            for column in self._columns:
                column[row] = column[end]
        sequence.row = None
        self.per_tier[sequence.tier] -= 1
