"""Plans steps and takes in their results: one rule, `computed` catches up with `known`, within a token budget.

A plan may be made before the last one's result is committed: tokens being drawn count as known, and a slice that
starts at one carries no ids, because the device still holds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from andes_jax.memory.host import HostPages
from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.prediction.lengths import LengthHistory, LengthPredictor
from andes_jax.request import FinishReason, Refusal, Request
from andes_jax.scheduling.admission import Admitter
from andes_jax.scheduling.advance import Advance, Advancer
from andes_jax.scheduling.budget import PreemptionBudget
from andes_jax.scheduling.displacement import Displacer
from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.drafter import Drafter
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.haste import Haste
from andes_jax.scheduling.journal import Journal
from andes_jax.scheduling.leap import Leaper
from andes_jax.scheduling.learned_times import LearnedTimes
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.pacing import ChunkPacer
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.plan import Slice, StepPlan, StepResult
from andes_jax.scheduling.policies.base import Moment, Policy
from andes_jax.scheduling.relief import Relief
from andes_jax.scheduling.roster import Roster
from andes_jax.scheduling.sequence import Sequence, State
from andes_jax.scheduling.step_time import StepTimeModel, StepWork
from andes_jax.scheduling.stowage import Stowage


class PlannedStep(NamedTuple):
    """A plan that is out, with what it was made of."""

    number: int
    sequences: list[Sequence]
    slices: list[Slice]
    work: StepWork


StepObserver = Callable[[PlannedStep, float, float], None]
"""Told of each step that is committed, when it ended and for how many seconds the device was at it."""


class Scheduler:
    """Owns all live sequences and their pages. One thread calls it; only `refusal` and counters may be read by others.

    Plans are committed in the order made; at most one plan may be out when the next is made.
    """

    def __init__(
        self,
        policy: Policy,
        pool: PagePool,
        prefix: PrefixCache | None,
        limits: SchedulerLimits,
        *,
        predictor: LengthPredictor | None = None,
        host_pages: int = 0,
        times: StepTimeModel | None = None,
    ) -> None:
        """`host_pages` pages of the host's memory may hold what paused sequences have computed; `times` is learnt
        where not given."""
        self.policy = policy
        self.pool = pool
        self.limits = limits
        self.journal = Journal()
        self.times = times or LearnedTimes(limits.warmup_steps)
        self.paging = Paging(pool, prefix, limits.page_tokens)
        self.ledger = Ledger(predictor or LengthHistory())
        self.stowage = Stowage(self.paging, HostPages(host_pages), self.times, self.journal)
        self.roster = Roster(limits, self.paging, self.ledger, self.stowage, self.journal)
        guarantee = Guarantee(limits, self.paging, self.ledger)
        displacer = Displacer(
            self.roster, self.ledger, self.paging, self.stowage, policy, PreemptionBudget(limits.preempt_share)
        )
        self._relief = Relief(self.roster, self.ledger, self.paging, self.stowage, policy, guarantee)
        self.admitter = Admitter(
            self.roster, self.ledger, self.paging, self.stowage, policy, limits, displacer, guarantee, self.journal
        )
        self._haste = Haste(self.times, limits)
        self._drafter = Drafter(
            self.roster, self.ledger, self.admitter, self._relief, policy, ChunkPacer(self.times, limits), self._haste,
            limits, self.times,
        )  # fmt: skip
        self._advancer = Advancer(self.roster, self.paging)
        self._leaper = Leaper(self.roster, self.ledger, self.paging, self.admitter, guarantee)
        self.steps: deque[PlannedStep] = deque()  # planned, not committed
        self.on_step: StepObserver | None = None
        self._number = 0
        self._token_s = 0.0  # of the last step committed
        self._slot_tokens = pool.total * limits.page_tokens / limits.max_sequences
        self.generated_tokens = 0

    @property
    def has_work(self) -> bool:
        """Whether anything that may run is live, or anything is in flight."""
        roster = self.roster
        return bool(roster.running or roster.waiting or roster.leaving or self.steps or self._trial_waits())

    def _trial_waits(self) -> bool:
        return self.roster.allowed is not None and bool(self.roster.held)

    def refusal(self, request: Request) -> Refusal | None:
        """Why the request can never be served, with the numbers; None when it can. Any thread may ask."""
        return self.limits.refusal(request, self.pool.total * self.limits.page_tokens)

    def add(self, request: Request, now: float | None = None) -> Sequence:
        """Take a request in; raises its Refusal. One that asks for no tokens and no scores is finished at once."""
        refusal = self.refusal(request)
        if refusal is not None:
            raise refusal
        self.journal.now = request.arrived_s if now is None else now
        sequence = self.roster.add(request)
        self._haste.expect(sequence)
        if request.sampling.max_tokens == 0 and not request.sampling.prompt_logprobs:
            self.roster.finish(sequence, FinishReason.LENGTH)
        return sequence

    def finish(self, request_id: str, reason: FinishReason, now: float | None = None) -> bool:
        """End a live request; results still in flight for it are dropped. False when it is not live."""
        sequence = self.roster.live.get(request_id)
        if sequence is None:
            return False
        if now is not None:  # without it the record says when the scheduler was last asked
            self.journal.now = now
        self.roster.finish(sequence, reason)
        return True

    def cancel(self, request_id: str) -> bool:
        """End a live request because nobody wants it any more. False when it is not live."""
        return self.finish(request_id, FinishReason.CANCELLED)

    def pause(self, request_id: str, now: float) -> bool:
        """Stop working on a live request, without losing what it has; False when it is not live."""
        sequence = self.roster.live.get(request_id)
        if sequence is not None:
            self.journal.now = now
            self.roster.pause(sequence, now)
        return sequence is not None

    def resume(self, request_id: str, now: float) -> bool:
        """Let a paused request wait for its turn again; False when it is not live."""
        sequence = self.roster.live.get(request_id)
        if sequence is not None:
            self.journal.now = now
            self.roster.resume(sequence, now)
        return sequence is not None

    def plan(self, now: float) -> StepPlan:
        """The next step. Without slices (nothing can or need be computed) it is no step: do not run or commit it."""
        self.journal.now = now
        used = self.pool.live / self.pool.total
        moment = Moment(now, self._number + 1, used, self._token_s, self._slot_tokens)
        ahead = self.steps[-1].work if self.steps else None
        draft = self._drafter.draft(moment, ahead)
        while not draft.slices and not self.steps and self.roster.running and self._relief.force(moment):
            draft = self._drafter.draft(moment, ahead)
        why = self._explain(draft)
        if not draft.slices:
            return StepPlan(self._number, why=why)
        self._number += 1
        saves, loads = self.stowage.take_saves(), tuple(self.admitter.loads)
        self.stowage.step_planned()
        copied = sum(len(copy.host_pages) for copy in (*saves, *loads)) if saves or loads else 0
        self.steps.append(PlannedStep(self._number, draft.sequences, draft.slices, draft.work(copied)))
        for sequence in draft.prefilled:
            self.paging.publish(sequence)
        return StepPlan(self._number, tuple(draft.slices), tuple(draft.admissions), saves, loads, why)

    def _explain(self, draft: Draft) -> dict[str, object]:
        roster = self.roster
        displaced, roster.displaced = roster.displaced, []
        drafted = len(draft.slices)
        if displaced:  # some may have lost their place after their slice was drafted
            drafted = sum(sequence.state is State.RUNNING for sequence in draft.sequences)
        return {
            "policy": self.policy.name,
            "decodes": len(draft.slices) - len(draft.prefilled),
            "prefills": len(draft.prefilled),
            "skipped": len(roster.running) - drafted,
            "admissions": len(draft.admissions),
            "displaced": displaced,
            "waiting": len(roster.waiting),
            "pages_free": self.pool.free,
        }

    def commit(self, result: StepResult, now: float, step_s: float | None = None) -> list[Advance]:
        """Take in the oldest planned step's result; returns what it brought, in the plan's order.

        `step_s` is how long the device was at it, where known. Raises ValueError when the result is another step's.
        """
        if not self.steps or self.steps[0].number != result.number:
            raise ValueError(f"result of step {result.number} does not belong to the oldest planned step")
        step = self.steps.popleft()
        self.journal.now = now
        if step_s is not None:
            self._token_s = step_s
            self.times.observe(step.work, step_s)
            if self.on_step is not None:
                self.on_step(step, now, step_s)
        advances, drawn = self._advancer.advance(step.sequences, step.slices, result, self.ledger, now)
        self.generated_tokens += drawn
        return advances

    def quiet_steps(self, now: float) -> int:
        """How many further steps would be one decode for each running sequence, if nobody comes or goes before them
        and none ends later than `next_look_s`; one step may be in flight. 0 when a decision is due."""
        return 0 if now >= self._leaper.next_look_s else self._leaper.quiet_steps()

    @property
    def next_look_s(self) -> float:
        """When those who wait are looked at again if nothing changes; inf when nobody waits."""
        return self._leaper.next_look_s

    def leap(self, ends_s: np.ndarray) -> None:
        """Plan and commit at once as many of these steps as there are ends [k], with made-up tokens; none in flight.

        The last of the quiet steps may end a reply and is not to be leapt over."""
        assert not self.steps
        self._leaper.leap(ends_s)
        self._number += len(ends_s)
        self.generated_tokens += len(ends_s) * len(self.roster.running)
        if len(ends_s) > 1:
            self._token_s = float(ends_s[-1] - ends_s[-2])

    def next_in_line(self) -> Sequence | None:
        """Some live sequence that is not paused, rather one that should be running than one that must wait."""
        roster = self.roster
        held = (sequence for sequence in roster.held.values() if not sequence.paused)
        return next(iter([*roster.running, *roster.waiting.members, *held]), None)

    def in_flight(self) -> list[str]:
        """Ids of the live requests that take part in planned steps without a result."""
        ids = {sequence.id: None for step in self.steps for sequence in step.sequences}
        return [request_id for request_id in ids if request_id in self.roster.live]

    def restart(self, now: float) -> None:
        """All pages' content is lost and the steps in flight bring nothing: everything is to be computed again."""
        self.steps.clear()
        self.admitter.clear()
        self.pool.clear_cache()
        self.roster.recall(now)

    def restrict(self, request_ids: frozenset[str] | None, now: float) -> None:
        """Run only these from now on (None: all again). Raises RuntimeError while steps are in flight."""
        if self.steps:
            raise RuntimeError("steps are in flight")
        self.admitter.clear()
        self.roster.hold_all_but(request_ids, now)
