"""Sequences that may not lose their place again can all be finished: the banker's algorithm over pages.

Dijkstra, EWD 108: a state is safe when those who hold what cannot be taken from them can be finished one after the
other, each with what is left and what the ones before it gave back. Everything others hold can be had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

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
        self._too_many = math.inf  # pages still to come with which a sequence may not grow, in this plan

    def begin(self) -> None:
        """Running sequences are about to be asked whether they may grow, several of them."""
        self._too_many = math.inf

    def covers(self, sequence: Sequence) -> bool:
        """Whether the sequence, where it runs, cannot lose its place again."""
        return sequence.preempt_count >= self._limits.max_preempt

    def may_seat(self, sequence: Sequence, pages: int, running: Iterable[Sequence]) -> bool:
        """Whether the sequence may run with so many pages: the state stays safe, and those covered are expected to fit
        beside each other, since while they do not, they can only wait for each other in place."""
        if not self.covers(sequence):
            return True
        covered = [each for each in running if self.covers(each)]
        if covered and self._peak_pages([*covered, sequence]) > EXPECTED_SHARE * self._paging.pool.total:
            return False
        claims = self._claims(covered)
        claims.append((self._paging.pages_for(sequence.goal) - pages, pages))
        return self._safe(claims)

    def may_grow(self, sequence: Sequence, running: Iterable[Sequence]) -> bool:
        """Whether the state stays safe when the running sequence takes one more page."""
        if not self.covers(sequence):
            return True
        held = len(sequence.pages)
        needed = self._paging.pages_for(sequence.goal) - held
        # Where one may not take a page since another that needs less could then not end, no one that needs more may.
        if needed >= self._too_many:
            return False
        claims = self._claims(each for each in running if each is not sequence)
        claims.append((needed - 1, held + 1))
        safe = self._safe(claims)
        if not safe:
            self._too_many = needed
        return safe

    def _peak_pages(self, sequences: list[Sequence]) -> float:
        """Most pages they are expected to hold at once, if all of them draw a token in each step until they end."""
        tokens = self._ledger.columns(rows_of(sequences), 0.0)
        order = np.argsort(tokens.remaining)
        left = np.arange(len(order), 0, -1)  # who still runs when each of them is about to end
        held = np.cumsum(tokens.context[order][::-1])[::-1] + left * tokens.remaining[order]
        return float((held / self._paging.page_tokens + left).max())

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
