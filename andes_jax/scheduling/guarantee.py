"""Sequences that may not lose their place again can all be finished: the banker's algorithm over pages.

Dijkstra, EWD 108: a state is safe when those who hold what cannot be taken from them can be finished one after the
other, each with what is left and what the ones before it gave back. Everything others hold can be had.
"""

from __future__ import annotations

from collections.abc import Iterable

from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.roster import rows_of
from andes_jax.scheduling.sequence import Sequence

EXPECTED_SHARE = 0.9  # of the pool, at most, is what sequences that cannot lose their place are expected to need


class Guarantee:
    """Keeps the state safe as sequences become unpreemptable and grow."""

    def __init__(self, limits: SchedulerLimits, paging: Paging, ledger: Ledger) -> None:
        self._limits = limits
        self._ledger = ledger
        self._paging = paging

    def covers(self, sequence: Sequence) -> bool:
        """Whether the sequence, where it runs, cannot lose its place again."""
        return sequence.preempt_count >= self._limits.max_preempt

    def may_seat(self, sequence: Sequence, pages: int, running: Iterable[Sequence]) -> bool:
        """Whether the sequence may run with so many pages: the state stays safe, and those covered are expected to fit
        beside each other, since while they do not, they can only wait for each other in place."""
        if not self.covers(sequence):
            return True
        covered = [each for each in running if self.covers(each)]
        if covered:
            together = rows_of([*covered, sequence])
            tokens = self._ledger.columns(together, 0.0)
            expected = (tokens.context + tokens.remaining) / self._paging.page_tokens + 1
            if expected.sum() > EXPECTED_SHARE * self._paging.pool.total:
                return False
        claims = self._claims(covered)
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
