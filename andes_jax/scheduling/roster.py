"""Who waits, who runs, who leaves, and which slots are free. Every change of a sequence's state happens here."""

from __future__ import annotations

from andes_jax.request import FinishReason, Request, Tier
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.queue import WaitingQueue
from andes_jax.scheduling.sequence import Sequence, State

SHELTER_TOKENS = 8  # a preempted sequence that runs again gets so many new tokens before it can lose its place


class Roster:
    """Sequences by state. Slot and pages of one that stops running are free once its last step is committed."""

    def __init__(self, limits: SchedulerLimits, paging: Paging) -> None:
        self._limits = limits
        self._paging = paging
        self._arrivals = 0
        self.live: dict[str, Sequence] = {}  # waiting or running, by request id
        self.waiting = WaitingQueue()
        self.held: dict[str, Sequence] = {}  # waiting, but not to be admitted for now
        self.running: list[Sequence] = []
        self.running_per_tier = [0] * len(Tier)
        self.leaving: dict[Sequence, None] = {}  # run no longer, but a step in flight uses what they hold
        self.free_slots = list(range(limits.max_sequences - 1, -1, -1))
        self.allowed: frozenset[str] | None = None  # ids that may be admitted; None: all
        self.preemptions = 0
        self.displaced: list[tuple[str, str]] = []  # (victim, for whom) since the last plan

    def add(self, request: Request) -> Sequence:
        """A new sequence, which waits; raises ValueError for an id that is live."""
        if request.id in self.live:
            raise ValueError(f"request id {request.id!r} is live already")
        self._arrivals += 1
        sequence = Sequence(request, self._arrivals)
        self.live[request.id] = sequence
        self._wait(sequence)
        return sequence

    def _wait(self, sequence: Sequence) -> None:
        if self.allowed is None or sequence.id in self.allowed:
            self.waiting.add(sequence)
        else:
            self.held[sequence.id] = sequence

    def _wait_no_more(self, sequence: Sequence) -> None:
        if sequence.row is not None:
            self.waiting.remove(sequence)
        else:
            self.held.pop(sequence.id, None)

    def seat(self, sequence: Sequence) -> None:
        """A waiting sequence that has its pages takes a free slot and runs."""
        self._wait_no_more(sequence)
        sequence.slot = self.free_slots.pop()
        sequence.state = State.RUNNING
        if sequence.preempt_count or sequence.yields:
            sequence.sheltered_until = self.shelter_of(sequence)
        self.running.append(sequence)
        self.running_per_tier[sequence.tier] += 1

    def shelter_of(self, sequence: Sequence) -> int:
        """Known tokens up to which a sequence admitted now could not be preempted."""
        return min(sequence.known + SHELTER_TOKENS, sequence.max_known)

    def preemptable(self, victim: Sequence, taker: Sequence) -> bool:
        """Whether the bounds on preemption let `victim` lose its place to `taker` now."""
        if victim.state is not State.RUNNING or len(victim.token_ids) < victim.sheltered_until:
            return False
        return victim.preempt_count < self._limits.max_preempt or self._yields(victim, taker)

    @staticmethod
    def _yields(victim: Sequence, taker: Sequence) -> bool:
        return victim.tier is Tier.BATCH and taker.tier is not Tier.BATCH

    def preempt(self, victim: Sequence, taker: Sequence, now: float) -> None:
        """The victim stops running and waits, with its output kept and its first arrival; its pages are recomputed."""
        if self._yields(victim, taker):
            victim.yields += 1
        else:
            victim.preempt_count += 1
        self.preemptions += 1
        self.displaced.append((victim.id, taker.id))
        victim.queued_s = now
        self._stop_running(victim, State.WAITING)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """The sequence is over; what it holds is freed after its last step in flight."""
        del self.live[sequence.id]
        sequence.finish = reason
        if sequence.state is State.RUNNING:
            self._stop_running(sequence, State.FINISHED)
            return
        sequence.state = State.FINISHED
        self._wait_no_more(sequence)

    def _stop_running(self, sequence: Sequence, state: State) -> None:
        self.running.remove(sequence)
        self.running_per_tier[sequence.tier] -= 1
        sequence.state = state
        self.leaving[sequence] = None
        if sequence.in_flight == 0:
            self.vacate(sequence)

    def vacate(self, sequence: Sequence) -> None:
        """Free the slot and the pages of a leaving sequence that no step in flight uses; one that waits is queued."""
        assert sequence.in_flight == 0 and sequence.slot is not None, sequence.id
        del self.leaving[sequence]
        self.free_slots.append(sequence.slot)
        sequence.slot = None
        self._paging.release(sequence)
        if not sequence.scored:
            sequence.scores.clear()
        if sequence.state is State.WAITING:
            self._wait(sequence)

    def leaving_pages(self) -> int:
        """Pages that come free as the steps in flight are committed, about."""
        return sum(self._paging.pool.exclusive(sequence.pages) for sequence in self.leaving)

    def hold_all_but(self, allowed: frozenset[str] | None, now: float) -> None:
        """Admit only these ids from now on (None: all). Nothing may be in flight; whoever runs waits again."""
        self.recall(now)
        everyone = self.waiting.rows + list(self.held.values())
        for sequence in everyone:
            self._wait_no_more(sequence)
        self.allowed = allowed
        for sequence in everyone:
            self._wait(sequence)

    def recall(self, now: float) -> None:
        """Forget the steps in flight; all who run or leave give up slot and pages, and the live ones wait again."""
        for sequence in self.running + list(self.leaving):
            sequence.in_flight = 0
            sequence.known = len(sequence.token_ids)
            if sequence.state is State.RUNNING:
                sequence.queued_s = now
                self._stop_running(sequence, State.WAITING)
            else:
                self.vacate(sequence)
