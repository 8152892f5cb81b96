"""Who gives up pages when running sequences need more than there are."""

from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.policies.base import Moment, Policy
from andes_jax.scheduling.roster import Roster
from andes_jax.scheduling.sequence import Sequence, State
from andes_jax.scheduling.stowage import Stowage


class Relief:
    """Serves needy sequences best rank first. One that gets nothing stays in place and skips the step.

    No sequence can be stuck for ever: the best ranked of all may take from every other, apart from those that can be
    finished with what is there and those that have just come back, and these advance.
    """

    def __init__(
        self,
        roster: Roster,
        ledger: Ledger,
        paging: Paging,
        stowage: Stowage,
        policy: Policy,
        guarantee: Guarantee,
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._paging = paging
        self._stowage = stowage
        self._policy = policy
        self._guarantee = guarantee

    def serve(self, needy: list[Sequence], moment: Moment) -> None:
        """Grow each of `needy` where possible, preempting running sequences that rank below it."""
        self._guarantee.begin()
        if self._stowage.reclaim(len(needy)):
            needy = [sequence for sequence in needy if not self._grow(sequence)]
            if not needy:
                return
        ranked = self._ranked(moment)
        wanting = set(needy)
        promised = 0  # pages on their way to a needy sequence
        coming = self._roster.leaving_pages()
        victimless: set[Tier] = set()  # of these nobody can take pages, as the best ranked could not
        for sequence in [ranked_one for ranked_one in ranked if ranked_one in wanting]:
            if sequence.state is not State.RUNNING or self._grow(sequence):
                continue
            if promised >= coming and sequence.tier in victimless:
                continue
            if not self._guarantee.may_grow(sequence, self._roster.running):
                continue
            if promised >= coming:
                victim = self._victim(sequence, ranked, wanting)
                if victim is None:
                    victimless.add(sequence.tier)
                    continue
                self._roster.preempt(victim, sequence, moment.now)
                if self._grow(sequence):
                    continue
                coming = self._roster.leaving_pages()
            promised += 1

    def force(self, moment: Moment) -> bool:
        """Nothing advances and nothing is in flight: the worst ranked that may gives way, whatever the policy says.

        False: there is none. Those whom the guarantee covers could always be finished without the others.
        """
        ranked = self._ranked(moment)
        if len(ranked) < 2:
            return False
        for victim in reversed(ranked):
            taker = ranked[0] if victim is not ranked[0] else ranked[1]
            if not self._guarantee.covers(victim) or self._roster.preemptable(victim, taker):
                self._roster.preempt(victim, taker, moment.now)
                return True
        return False

    def _grow(self, sequence: Sequence) -> bool:
        if not self._stowage.reclaim(1):
            return False
        if not self._guarantee.covers(sequence):
            return self._paging.grow(sequence)
        return self._guarantee.may_grow(sequence, self._roster.running) and self._paging.grow(sequence, ahead=False)

    def _ranked(self, moment: Moment) -> list[Sequence]:
        running = list(self._roster.running)
        columns = self._ledger.columns(self._roster.rows_running(), moment.now)
        return [running[index] for index in self._policy.keep_order(columns, moment).tolist()]

    def _victim(self, needy: Sequence, ranked: list[Sequence], wanting: set[Sequence]) -> Sequence | None:
        """The last in rank that may lose its pages to `needy`: also one that stands still itself for want of them."""
        for victim in reversed(ranked):
            if victim is needy:
                return None
            takes = victim in wanting or self._policy.takes_pages(needy, victim)
            if takes and self._roster.preemptable(victim, needy):
                return victim
        return None
