"""Which waiting sequences start to run, in a plan's spare tokens, slots and pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.policies.base import Policy
from andes_jax.scheduling.priority import columns_of
from andes_jax.scheduling.roster import Roster
from andes_jax.scheduling.sequence import Sequence

CANDIDATES = 32  # waiting sequences looked at in one plan


class Admitter:
    """Takes candidates in the policy's order. Nobody overtakes one that lacks pages but a more urgent one.

    A displaced sequence's place is free only after its step in flight; the one it was displaced for comes first then.
    """

    def __init__(self, roster: Roster, paging: Paging, policy: Policy, limits: SchedulerLimits) -> None:
        self._roster = roster
        self._paging = paging
        self._policy = policy
        self._limits = limits
        self._claims: list[Sequence] = []  # others were displaced for them
        self._candidates: deque[Sequence] | None = None
        self._blocked: Sequence | None = None  # the first candidate that lacked pages
        self._stall: tuple[Sequence, int] | None = None  # who lacked pages last, and how many were spare then
        self._ranked: list[Sequence] | None = None  # running ones, worst first

    def begin(self) -> None:
        """A new plan."""
        self._candidates = None
        self._blocked = None
        self._ranked = None

    def make_room(self, now: float) -> None:
        """Displace others for slots, before they get another step; for as much new work as a step can take."""
        roster = self._roster
        if roster.free_slots or not self._policy.restless(roster.waiting.per_tier, roster.running_per_tier):
            return
        self._candidates = deque(self._rank(now))
        victimless: set[int] = set()  # tiers whose best candidate found nobody to displace
        promised = 0
        budget = self._limits.step_tokens
        for sequence in self._candidates:
            if budget <= 0:
                break
            if sequence.tier in victimless:
                continue
            if promised == len(roster.leaving) + len(roster.free_slots):
                victim = next(self._victims(sequence, now), None)
                if victim is None:
                    victimless.add(sequence.tier)
                    continue
                roster.preempt(victim, sequence, now)
            promised += 1
            budget -= sequence.known
            self._claims.append(sequence)

    def clear(self) -> None:
        """Forget all claims: everybody waits again."""
        self._claims.clear()
        self._stall = None

    def next(self, now: float, over: Sequence | None = None) -> Sequence | None:
        """The next sequence to run, seated; with `over`, only one that goes before that running sequence's prefill."""
        if not self._roster.free_slots:
            return None
        if self._candidates is None:
            self._candidates = deque(self._rank(now))
        while self._candidates:
            sequence = self._candidates[0]
            if over is not None and not self._policy.overtakes(sequence, over, now):
                return None
            self._candidates.popleft()
            if self._blocked is not None and not self._policy.overtakes(sequence, self._blocked, now):
                continue
            if self._admit(sequence, now):
                return sequence
        return None

    def _rank(self, now: float) -> list[Sequence]:
        waiting = self._roster.waiting
        claims = [sequence for sequence in self._claims if sequence.row is not None]
        self._claims = []
        if not waiting.rows:
            return claims
        if len(waiting.rows) == 1:
            return waiting.rows[:]
        order = self._policy.order(waiting.columns, now, CANDIDATES).tolist()
        ranked = [waiting.rows[row] for row in order]
        return claims + [sequence for sequence in ranked if sequence not in claims] if claims else ranked

    def _admit(self, sequence: Sequence, now: float) -> bool:
        if self._stalled(sequence):
            self._blocked = self._blocked or sequence
            return False
        hit = self._paging.find(sequence)
        tokens = self._tokens_to_seat(sequence)
        missing = self._missing(sequence, hit[0], tokens)
        if missing > 0:
            if not self._take_pages(sequence, missing, now):
                self._blocked = self._blocked or sequence
                self._stall = (sequence, self._spare())
                return False
            hit = self._paging.find(sequence)
        if not self._paging.seat(sequence, hit, tokens):
            self._blocked = self._blocked or sequence
            return False
        self._roster.seat(sequence)
        return True

    def _stalled(self, sequence: Sequence) -> bool:
        """Whether it lacked pages before and no more have come since, so that looking again is in vain."""
        if self._stall is None or self._stall[0] is not sequence or self._spare() > self._stall[1]:
            return False
        return not self._policy.restless(self._roster.waiting.per_tier, self._roster.running_per_tier)

    def _spare(self) -> int:
        return self._paging.pool.available - len(self._roster.running)

    def _tokens_to_seat(self, sequence: Sequence) -> int:
        """Positions whose pages are taken at once: all for one that may not be preempted again, else what is known."""
        if sequence.preempt_count >= self._limits.max_preempt:
            return sequence.goal
        if sequence.preempt_count or sequence.yields:
            return min(self._roster.shelter_of(sequence), sequence.goal)
        return min(sequence.known, sequence.goal)

    def _missing(self, sequence: Sequence, hit: list[int], tokens: int) -> int:
        """Pages short of seating the sequence with a margin for those who run, so that it does not push one out."""
        pool = self._paging.pool
        wanted = self._paging.pages_for(tokens) - len(hit) + pool.idle(hit)
        running = len(self._roster.running)
        if not running:
            return wanted - pool.available
        return wanted + running + pool.total // 64 - pool.room(sequence.tier)

    def _take_pages(self, sequence: Sequence, missing: int, now: float) -> bool:
        """Free `missing` pages by displacing others, all or nobody; False when they are not there yet."""
        roster = self._roster
        coming = roster.leaving_pages()
        chosen: list[Sequence] = []
        for victim in self._victims(sequence, now):
            if coming >= missing:
                break
            chosen.append(victim)
            coming += self._paging.pool.exclusive(victim.pages)
        if coming < missing or not chosen:
            return False
        for victim in chosen:
            roster.preempt(victim, sequence, now)
        if not roster.leaving:
            return True
        self._claims.append(sequence)
        return False

    def _victims(self, sequence: Sequence, now: float) -> Iterator[Sequence]:
        """Running sequences that may be displaced for this one, the first to go first."""
        roster = self._roster
        policy = self._policy
        if not policy.restless(roster.waiting.per_tier, roster.running_per_tier):
            return
        if self._ranked is None:
            running = roster.running
            order = policy.order(columns_of(running, now), now).tolist()
            self._ranked = [running[index] for index in reversed(order)]
        for victim in self._ranked:
            if roster.preemptable(victim, sequence) and policy.displaces(sequence, victim, now):
                yield victim
