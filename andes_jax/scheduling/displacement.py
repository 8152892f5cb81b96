"""How a waiting sequence gets the slot or the pages of others: from parked ones, and from running ones it displaces."""

from __future__ import annotations

from collections.abc import Iterator

from andes_jax.scheduling.budget import PreemptionBudget
from andes_jax.scheduling.ledger import Columns, Ledger
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.policies.base import Moment, Policy
from andes_jax.scheduling.roster import Roster, rows_of
from andes_jax.scheduling.sequence import Sequence
from andes_jax.scheduling.stowage import Stowage


class Displacer:
    """Takes from others only what is enough: either all that a sequence lacks, or nothing."""

    def __init__(
        self,
        roster: Roster,
        ledger: Ledger,
        paging: Paging,
        stowage: Stowage,
        policy: Policy,
        budget: PreemptionBudget,
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._paging = paging
        self._stowage = stowage
        self._policy = policy
        self._budget = budget
        self._moment = Moment(0.0, 0, 0.0, 0.0)
        self._everyone: list[Sequence] = []  # who ran when `_running` was made
        self._running: Columns | None = None  # of those who run, for this plan

    def begin(self, moment: Moment) -> None:
        """A new plan."""
        self._moment = moment
        self._running = None

    def take_slot(self, sequence: Sequence) -> bool:
        """Displace one running sequence; False: there is none that may be."""
        victim = next(self._victims(sequence), None)
        if victim is None:
            return False
        self._displace(victim, sequence)
        return True

    def spare_pages(self, sequence: Sequence, missing: int, shared: list[int]) -> bool:
        """Have parked sequences give up so many pages beside those that the sequence is about to share."""
        giving = self._paging.pool.departures(kept=shared)
        chosen = []
        for parked in self._stowage.parked_sequences(keep=sequence):
            if giving.pages >= missing:
                break
            giving.add(parked.pages)
            chosen.append(parked)
        if giving.pages < missing:
            return False
        self._stowage.stow(chosen)
        return True

    def take_pages(self, sequence: Sequence, missing: int, shared: list[int]) -> bool:
        """Displace running sequences for what parked and leaving ones do not give; False: they would not be enough.

        The pages are there once the steps in flight are committed.
        """
        if not self._policy.preempts:
            return False
        coming = self._paging.pool.departures(kept=shared)
        for giver in (*self._stowage.parked_sequences(keep=sequence), *self._roster.leaving):
            coming.add(giver.pages)
        chosen = []
        for victim in self._victims(sequence):
            if coming.pages >= missing:
                break
            coming.add(victim.pages)
            chosen.append(victim)
        if coming.pages < missing or not chosen:
            return False
        for victim in chosen:
            self._displace(victim, sequence)
        return True

    def _displace(self, victim: Sequence, sequence: Sequence) -> None:
        if self._policy.spends and victim.tier == sequence.tier:
            self._budget.spend(self._stowage.cost_s(victim), self._moment.now)
        self._roster.preempt(victim, sequence, self._moment.now)

    def _victims(self, sequence: Sequence) -> Iterator[Sequence]:
        """Running sequences that may be displaced for this one, the first to go first."""
        roster, moment = self._roster, self._moment
        if not roster.running:
            return
        if self._running is None:
            self._everyone = list(roster.running)
            self._running = self._ledger.columns(roster.rows_running(), moment.now)
        columns = self._ledger.columns(rows_of([sequence]), moment.now)
        for index in self._policy.victims(columns, self._running, moment).tolist():
            victim = self._everyone[index]
            if not roster.preemptable(victim, sequence):
                continue
            if self._policy.spends and victim.tier == sequence.tier and not self._budget.allows(moment.now):
                continue
            yield victim
