"""Sequences that may not lose their place again can all be finished: the banker's algorithm over pages.

Dijkstra, EWD 108: a state is safe when those who hold what cannot be taken from them can be finished one after the
other, each with what is left and what the ones before it gave back. Everything others hold can be had.
"""

from __future__ import annotations

from collections.abc import Iterable

from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.sequence import Sequence


SHARE = 0.5  # of the pool, at most, is given to such sequences to start with, so that they rarely wait for each other


class Guarantee:
    """Keeps the state safe as sequences become unpreemptable and grow."""

    def __init__(self, limits: SchedulerLimits, paging: Paging) -> None:
        self._limits = limits
        self._paging = paging

    def covers(self, sequence: Sequence) -> bool:
        """Whether the sequence, where it runs, cannot lose its place again."""
        return sequence.preempt_count >= self._limits.max_preempt

    def may_seat(self, sequence: Sequence, pages: int, running: Iterable[Sequence]) -> bool:
        """Whether the state stays safe when the sequence runs, with so many pages."""
        if not self.covers(sequence):
            return True
        claims = self._claims(running)
        if claims and sum(held for _, held in claims) + pages > SHARE * self._paging.pool.total:
            return False
        claims.append((self._paging.pages_for(sequence.goal) - pages, pages))
        return self._safe(claims)

    def may_grow(self, sequence: Sequence, running: Iterable[Sequence]) -> bool:
        """Whether the state stays safe when the running sequence takes one more page."""
        if not self.covers(sequence):
            return True
        claims = self._claims(each for each in running if each is not sequence)
        held = len(sequence.pages)
        claims.append((self._paging.pages_for(sequence.goal) - held - 1, held + 1))
        return self._safe(claims)

    def _claims(self, running: Iterable[Sequence]) -> list[tuple[int, int]]:
        """(pages still to come, pages held) of those covered."""
        most, pages_for = self._limits.max_preempt, self._paging.pages_for
        return [
            (pages_for(each.goal) - len(each.pages), len(each.pages)) for each in running if each.preempt_count >= most
        ]

    def _safe(self, claims: list[tuple[int, int]]) -> bool:
        left = self._paging.pool.total - sum(held for _, held in claims)
        for needed, held in sorted(claims):
            if needed > left:
                return False
            left += held
        return True
