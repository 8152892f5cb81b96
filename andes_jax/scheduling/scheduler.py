"""Plans steps and takes in their results: one rule, `computed` catches up with `known`, within a token budget.

A plan may be made before the last one's result is committed: tokens being drawn count as known, and a slice that
starts at one carries no ids, because the device still holds it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from andes_jax.events import TokenLogprobs
from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.request import FinishReason, Refusal, Request
from andes_jax.scheduling.admission import Admitter
from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.plan import Admission, Slice, StepPlan, StepResult
from andes_jax.scheduling.policies.base import Policy
from andes_jax.scheduling.priority import columns_of
from andes_jax.scheduling.relief import Relief
from andes_jax.scheduling.roster import Roster
from andes_jax.scheduling.sequence import Sequence, State


class Advance(NamedTuple):
    """What one committed step brought one sequence."""

    sequence: Sequence
    token_ids: tuple[int, ...]
    finish: FinishReason | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()  # aligned with token_ids when asked for
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None  # with the first advance, when asked for
    message: str | None = None  # with FAILED


class _Step(NamedTuple):
    number: int
    sequences: list[Sequence]
    slices: list[Slice]


class Scheduler:
    """Owns all live sequences and their pages. One thread calls it; only `refusal` and counters may be read by others.

    Plans are committed in the order made; at most one plan may be out when the next is made.
    """

    def __init__(self, policy: Policy, pool: PagePool, prefix: PrefixCache | None, limits: SchedulerLimits) -> None:
        self.policy = policy
        self.pool = pool
        self.limits = limits
        self.paging = Paging(pool, prefix, limits.page_tokens)
        self.roster = Roster(limits, self.paging)
        self._relief = Relief(self.roster, self.paging, policy)
        self._admitter = Admitter(self.roster, self.paging, policy, limits)
        self._steps: deque[_Step] = deque()  # planned, not committed
        self._number = 0
        self._page_tokens = limits.page_tokens
        self._page_is_full = 1 % limits.page_tokens  # a page's last token is computed once the next one is drawn
        self.generated_tokens = 0

    @property
    def has_work(self) -> bool:
        """Whether anything is live or in flight."""
        return bool(self.roster.live or self._steps)

    @property
    def steps_planned(self) -> int:
        """The number of the last plan."""
        return self._number

    def refusal(self, request: Request) -> Refusal | None:
        """Why the request can never be served, with the numbers; None when it can. Any thread may ask."""
        prompt = len(request.prompt_ids)
        wanted = request.sampling.max_tokens
        if prompt == 0:
            return Refusal("the prompt is empty: at least one token is needed", "invalid_value", "prompt")
        pool_tokens = self.pool.total * self.limits.page_tokens
        longest = self.limits.max_model_len
        what = "the model's context length is"
        if prompt + wanted <= longest and max(prompt + wanted - 1, prompt) > pool_tokens:
            longest, what = pool_tokens, "the cache holds at most"
        elif prompt + wanted <= longest:
            return None
        message = (
            f"{what} {longest} tokens, but the request needs {prompt + wanted}: "
            f"{prompt} in the prompt and {wanted} to generate"
        )
        return Refusal(message, "context_length_exceeded", "prompt" if prompt >= longest else "max_tokens")

    def add(self, request: Request) -> Sequence:
        """Take a request in; raises its Refusal. One that asks for no tokens and no scores is finished at once."""
        refusal = self.refusal(request)
        if refusal is not None:
            raise refusal
        sequence = self.roster.add(request)
        if request.sampling.max_tokens == 0 and not request.sampling.prompt_logprobs:
            self.roster.finish(sequence, FinishReason.LENGTH)
        return sequence

    def finish(self, request_id: str, reason: FinishReason) -> bool:
        """End a live request; results still in flight for it are dropped. False when it is not live."""
        sequence = self.roster.live.get(request_id)
        if sequence is None:
            return False
        self.roster.finish(sequence, reason)
        return True

    def cancel(self, request_id: str) -> bool:
        """End a live request because nobody wants it any more. False when it is not live."""
        return self.finish(request_id, FinishReason.CANCELLED)

    def plan(self, now: float) -> StepPlan:
        """The next step. Without slices (nothing can or need be computed) it is no step: do not run or commit it."""
        draft = self._draft(now)
        while not draft.slices and not self._steps and self.roster.running and self._relief.force(now):
            draft = self._draft(now)
        why = self._explain(draft)
        if not draft.slices:
            return StepPlan(self._number, why=why)
        self._number += 1
        self._steps.append(_Step(self._number, draft.sequences, draft.slices))
        for sequence in draft.prefilled:
            self.paging.publish(sequence)
        return StepPlan(self._number, tuple(draft.slices), tuple(draft.admissions), why=why)

    def _draft(self, now: float) -> Draft:
        running = self.roster.running
        needy = [s for s in running if s.computed == s.capacity and s.computed < s.known and s.computed < s.goal]
        if needy:
            self._relief.serve(needy, now)
        admitter = self._admitter
        admitter.begin()
        waiting = self.roster.waiting
        if waiting.rows:
            admitter.make_room(now)
        draft = Draft()
        prefills = draft.decode(running)
        budget = self.limits.step_tokens - len(draft.slices)
        if len(prefills) > 1:
            order = self.policy.order(columns_of(prefills, now), now).tolist()
            prefills = [prefills[index] for index in order]
        for sequence in prefills:
            while budget > 0 and waiting.rows and (newcomer := admitter.next(now, sequence)) is not None:
                budget -= self._start(newcomer, draft, budget)
            if budget > 0 and sequence.state is State.RUNNING:
                budget -= draft.prefill(sequence, min(budget, self.limits.prefill_chunk))
        while budget > 0 and waiting.rows and (newcomer := admitter.next(now)) is not None:
            budget -= self._start(newcomer, draft, budget)
        return draft

    def _start(self, sequence: Sequence, draft: Draft, budget: int) -> int:
        """Put a newly seated sequence into the plan; returns its tokens in it."""
        assert sequence.slot is not None
        request = sequence.request
        draft.admissions.append(Admission(sequence.slot, request.sampling, request.prompt_ids, sequence.output_ids))
        return draft.prefill(sequence, min(budget, self.limits.prefill_chunk))

    def _explain(self, draft: Draft) -> dict[str, object]:
        roster = self.roster
        displaced, roster.displaced = roster.displaced, []
        return {
            "policy": self.policy.name,
            "decodes": len(draft.slices) - len(draft.prefilled),
            "prefills": len(draft.prefilled),
            "paused": len(roster.running) - len(draft.slices),
            "admissions": len(draft.admissions),
            "displaced": displaced,
            "waiting": len(roster.waiting.rows),
            "pages_free": self.pool.free,
        }

    def explain(self, now: float) -> dict[str, dict[str, float]]:
        """The policy's terms for every waiting and running request, by id; computed when asked for."""
        roster = self.roster
        told: dict[str, dict[str, float]] = {}
        for rows, columns in (
            (roster.waiting.rows, roster.waiting.columns),
            (roster.running, columns_of(roster.running, now)),
        ):
            terms = self.policy.explain(columns, now)
            for index, sequence in enumerate(rows):
                told[sequence.id] = {name: float(values[index]) for name, values in terms.items()}
        return told

    def commit(self, result: StepResult, now: float) -> list[Advance]:
        """Take in the oldest planned step's result; returns what it brought, in the plan's order.

        Raises ValueError when the result is another step's.
        """
        if not self._steps or self._steps[0].number != result.number:
            raise ValueError(f"result of step {result.number} does not belong to the oldest planned step")
        step = self._steps.popleft()
        finite = None if result.finite.all() else result.finite.tolist()
        advances: list[Advance] = []
        vacate = self.roster.vacate
        drawn, scored = result.logprobs, result.scores
        for index, (sequence, part, token_id) in enumerate(
            zip(step.sequences, step.slices, result.token_ids.tolist(), strict=True)
        ):
            sequence.in_flight -= 1
            if sequence.state is not State.FINISHED:
                if part.sample and finite is not None and not finite[index]:
                    advances.append(self._fail(sequence))
                else:
                    scores = scored.get(index, []) if part.score_ids is not None else None
                    advance = self._advance(sequence, part, token_id, scores, drawn.get(index) if drawn else None)
                    if advance is not None:
                        advances.append(advance)
            if sequence.in_flight == 0 and sequence.state is not State.RUNNING and sequence.slot is not None:
                vacate(sequence)
        return advances

    def _advance(
        self,
        sequence: Sequence,
        part: Slice,
        token_id: int,
        scores: list[TokenLogprobs] | None,
        logprobs: TokenLogprobs | None,
    ) -> Advance | None:
        prompt_logprobs = None
        if scores is not None:
            prompt_logprobs = self._score(sequence, part, scores)
        if not part.sample:
            if prompt_logprobs is None or sequence.request.sampling.max_tokens > 0:
                return None
            self.roster.finish(sequence, FinishReason.LENGTH)
            return Advance(sequence, (), FinishReason.LENGTH, (), prompt_logprobs)
        ids = sequence.token_ids
        ids.append(token_id)
        count = len(ids)
        self.generated_tokens += 1
        finish = None
        if token_id in sequence.stop_ids:
            finish = FinishReason.STOP
        elif count == sequence.max_known:
            finish = FinishReason.LENGTH
        if count % self._page_tokens == self._page_is_full:
            self.paging.publish(sequence)
        if finish is not None:
            self.roster.finish(sequence, finish)
        drawn = (logprobs,) if sequence.wants_logprobs and logprobs is not None else ()
        return Advance(sequence, (token_id,), finish, drawn, prompt_logprobs)

    def _score(
        self, sequence: Sequence, part: Slice, scores: list[TokenLogprobs]
    ) -> tuple[TokenLogprobs | None, ...] | None:
        """Collect prompt scores; returns all of them once they are complete."""
        if sequence.scored or part.first != len(sequence.scores):
            return None
        sequence.scores.extend(scores)
        if part.first + part.count < sequence.prompt_length:
            return None
        sequence.scored = True
        return (None, *sequence.scores)

    def _fail(self, sequence: Sequence) -> Advance:
        self.paging.distrust(sequence)
        self.roster.finish(sequence, FinishReason.FAILED)
        message = "the model's output for this request was not finite (NaN or infinity)"
        return Advance(sequence, (), FinishReason.FAILED, message=message)

    def next_in_line(self) -> Sequence | None:
        """Some live sequence, rather one that should be running than one that must wait."""
        roster = self.roster
        return next(iter([*roster.running, *roster.waiting.rows, *roster.held.values()]), None)

    def in_flight(self) -> list[str]:
        """Ids of the live requests that take part in planned steps without a result."""
        ids = {sequence.id: None for step in self._steps for sequence in step.sequences}
        return [request_id for request_id in ids if request_id in self.roster.live]

    def restart(self, now: float) -> None:
        """All pages' content is lost and the steps in flight bring nothing: everything is to be computed again."""
        self._steps.clear()
        self._admitter.clear()
        self.pool.clear_cache()
        self.roster.recall(now)

    def restrict(self, request_ids: frozenset[str] | None, now: float) -> None:
        """Run only these from now on (None: all again). Raises RuntimeError while steps are in flight."""
        if self._steps:
            raise RuntimeError("steps are in flight")
        self._admitter.clear()
        self.roster.hold_all_but(request_ids, now)
