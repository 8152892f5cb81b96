"""Who waits, who runs, who leaves, and which slots are free. Every change of a sequence's state happens here."""

from __future__ import annotations

import math

import numpy as np

from andes_jax.request import FinishReason, Request, Tier
from andes_jax.scheduling.journal import Journal
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.queue import WaitingQueue
from andes_jax.scheduling.sequence import Sequence, State
from andes_jax.scheduling.stowage import Stowage

SHELTER_TOKENS = 8  # a preempted sequence that runs again gets so many new tokens before it can lose its place


class Roster:
    """Sequences by state. The slot of one that stops running is free once its last step is committed."""

    def __init__(
        self, limits: SchedulerLimits, paging: Paging, ledger: Ledger, stowage: Stowage, journal: Journal
    ) -> None:
        self._limits = limits
        self._paging = paging
        self._ledger = ledger
        self._stowage = stowage
        self._journal = journal
        self._arrivals = 0
        self.live: dict[str, Sequence] = {}  # by request id
        self.waiting = WaitingQueue()
        self.held: dict[str, Sequence] = {}  # live, but not to be admitted for now: paused, or not on trial
        self.running: list[Sequence] = []
        self.running_per_tier = [0] * len(Tier)
        self.leaving: dict[Sequence, None] = {}  # run no longer, but a step in flight uses what they hold
        self.free_slots = list(range(limits.max_sequences - 1, -1, -1))
        self.allowed: frozenset[str] | None = None  # ids that may be admitted; None: all
        self.last_reader_s = -math.inf  # when the last request came that was not of the batch tier
        self.preemptions = 0
        self.displaced: list[tuple[str, str]] = []  # (victim, for whom) since the last plan
        self.changed = True  # somebody has come, or a place has come free, since the last look at those who wait

    def add(self, request: Request) -> Sequence:
        """A new sequence, which waits; raises ValueError for an id that is live."""
        if request.id in self.live:
            raise ValueError(f"request id {request.id!r} is live already")
        self._arrivals += 1
        sequence = Sequence(request, self._arrivals)
        self.live[request.id] = sequence
        if sequence.tier is not Tier.BATCH:
            self.last_reader_s = request.arrived_s
        self._ledger.enter(sequence)
        journal, tier = self._journal, sequence.tier.name.lower()
        at_s = min(request.arrived_s, journal.now)  # the engine may have been in a step when it came
        journal.note(sequence.id, "arrived", at_s, tier=tier, prompt_tokens=sequence.prompt_length)
        self._wait(sequence)
        return sequence

    def rows_running(self) -> np.ndarray:
        """Ledger rows of those who run, in order."""
        return rows_of(self.running)

    @property
    def has_batch(self) -> bool:
        """Whether batch work runs or waits."""
        return bool(self.running_per_tier[Tier.BATCH] or self.waiting.per_tier[Tier.BATCH])

    def _wait(self, sequence: Sequence) -> None:
        to_compute = 1 if sequence.stored else sequence.known - sequence.computed
        self._ledger.wait(sequence, to_compute)
        if (not sequence.paused) if self.allowed is None else sequence.id in self.allowed:
            self.waiting.add(sequence)
            self.changed = True
        else:
            self.held[sequence.id] = sequence

    def _wait_no_more(self, sequence: Sequence) -> None:
        if sequence.place is not None:
            self.waiting.remove(sequence)
        else:
            self.held.pop(sequence.id, None)

    def seat(self, sequence: Sequence, now: float) -> None:
        """A waiting sequence that has its pages takes a free slot and runs."""
        self._wait_no_more(sequence)
        self._stowage.unpark(sequence)
        sequence.slot = self.free_slots.pop()
        sequence.state = State.RUNNING
        if sequence.preempt_count or sequence.yields:
            sequence.sheltered_until = self.shelter_of(sequence)
        if sequence.first_run_s is None:
            sequence.first_run_s = now
        self._ledger.hold(sequence, now)
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
        """The victim stops running and waits, with its output kept and its first arrival."""
        if self._yields(victim, taker):
            victim.yields += 1
        else:
            victim.preempt_count += 1
        self.preemptions += 1
        self.displaced.append((victim.id, taker.id))
        self._journal.note(victim.id, "displaced", by=taker.id, tokens=victim.generated)
        victim.queued_s = now
        self._stop_running(victim, State.WAITING)

    def pause(self, sequence: Sequence, now: float) -> None:
        """The sequence is not to run until resumed; it keeps its pages while nobody wants them."""
        if sequence.paused:
            return
        sequence.paused = True
        self._journal.note(sequence.id, "paused", tokens=sequence.generated)
        if self.allowed is not None:
            return  # on trial, nobody rests; afterwards all are sorted anew
        if sequence.state is State.RUNNING:
            sequence.queued_s = now
            self._stop_running(sequence, State.WAITING)
        elif sequence not in self.leaving:
            self._wait_no_more(sequence)
            self.held[sequence.id] = sequence

    def resume(self, sequence: Sequence, now: float) -> None:
        """A paused sequence waits for its turn again."""
        if not sequence.paused:
            return
        sequence.paused = False
        sequence.queued_s = now
        self._journal.note(sequence.id, "resumed")
        if self.allowed is None and self.held.pop(sequence.id, None) is not None:
            self._wait(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """The sequence is over; what it holds is freed after its last step in flight."""
        del self.live[sequence.id]
        sequence.finish = reason
        sequence.qoe = self._ledger.qoe(sequence)
        self._journal.note(sequence.id, "finished", reason=str(reason), tokens=sequence.generated)
        if reason in (FinishReason.STOP, FinishReason.LENGTH):
            self._ledger.predictor.finished(sequence.request, sequence.generated)
        if sequence.state is State.RUNNING:
            self._stop_running(sequence, State.FINISHED)
        else:
            sequence.state = State.FINISHED
            self._wait_no_more(sequence)
            if sequence not in self.leaving:
                self._stowage.drop(sequence)
                self.changed = True
        self._ledger.leave(sequence)

    def _stop_running(self, sequence: Sequence, state: State) -> None:
        self.running.remove(sequence)
        self.running_per_tier[sequence.tier] -= 1
        sequence.state = state
        self.leaving[sequence] = None
        if sequence.in_flight == 0:
            self.vacate(sequence)

    def vacate(self, sequence: Sequence) -> None:
        """Free the slot of a leaving sequence that no step in flight uses; one that waits keeps its pages for now."""
        assert sequence.in_flight == 0 and sequence.slot is not None, sequence.id
        del self.leaving[sequence]
        self.free_slots.append(sequence.slot)
        sequence.slot = None
        self.changed = True
        if sequence.state is State.FINISHED:
            self._paging.release(sequence)
            return
        if sequence.scored:
            self._stowage.park(sequence)
        else:  # its scores come with its first pass over the prompt, which begins anew
            sequence.scores.clear()
            self._paging.release(sequence)
        self._wait(sequence)

    def leaving_pages(self) -> int:
        """Pages that come free as the steps in flight are committed."""
        coming = self._paging.pool.departures()
        for sequence in self.leaving:
            coming.add(sequence.pages)
        return coming.pages

    def hold_all_but(self, allowed: frozenset[str] | None, now: float) -> None:
        """Admit only these ids from now on (None: all). Nothing may be in flight; whoever runs waits again."""
        self.recall(now)
        everyone = self.waiting.members + list(self.held.values())
        for sequence in everyone:
            self._wait_no_more(sequence)
        self.allowed = allowed
        for sequence in everyone:
            self._wait(sequence)

    def recall(self, now: float) -> None:
        """Forget the steps in flight; all content is lost, and the live sequences wait again."""
        for sequence in self.running + list(self.leaving):
            sequence.in_flight = 0
            sequence.known = len(sequence.token_ids)
            if sequence.state is State.RUNNING:
                sequence.queued_s = now
                self._stop_running(sequence, State.WAITING)
            else:
                self.vacate(sequence)
        for sequence in self.live.values():
            self._stowage.drop(sequence)
            self._ledger.wait(sequence, sequence.known)


def rows_of(sequences: list[Sequence]) -> np.ndarray:
    """Ledger rows [n] of live sequences."""
    return np.array([sequence.row for sequence in sequences], dtype=np.int64)
