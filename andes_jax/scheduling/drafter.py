"""What goes into a step: a token for each running reply, and parts of prompts as far as tokens and readers allow."""

from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.admission import Admitter
from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.haste import Haste
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.pacing import LEAST_TOKENS, ChunkPacer
from andes_jax.scheduling.plan import Admission
from andes_jax.scheduling.policies.base import Moment, Policy
from andes_jax.scheduling.prompt_tokens import BatchTurns, Overdue, PromptTokens
from andes_jax.scheduling.relief import Relief
from andes_jax.scheduling.roster import Roster, rows_of
from andes_jax.scheduling.sequence import Sequence, State
from andes_jax.scheduling.step_time import StepTimeModel, StepWork

READERS_EXPECTED_S = 10.0  # after the last one came, another is expected: steps are kept short for it


class Drafter:
    """Serves who runs first, then those whose prompts are begun, and newcomers before or after these."""

    def __init__(
        self,
        roster: Roster,
        ledger: Ledger,
        admitter: Admitter,
        relief: Relief,
        policy: Policy,
        pacer: ChunkPacer,
        haste: Haste,
        limits: SchedulerLimits,
        times: StepTimeModel,
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._admitter = admitter
        self._relief = relief
        self._policy = policy
        self._pacer = pacer
        self._haste = haste
        self._limits = limits
        self._times = times
        self._turns = BatchTurns()
        self._overdue = Overdue()

    def draft(self, moment: Moment, ahead: StepWork | None) -> Draft:
        """The next step's content; a step with the work `ahead` is still to be done before it."""
        running = self._roster.running
        needy = [s for s in running if s.computed == s.capacity and s.computed < s.known and s.computed < s.goal]
        if needy:
            self._relief.serve(needy, moment)
        admitter = self._admitter
        admitter.begin(moment)
        admitter.make_room()
        draft = Draft()
        prefills, left_out = self._decode(draft, moment, ahead)
        if len(prefills) > 1:
            columns = self._ledger.columns(rows_of(prefills), moment.now)
            prefills = [prefills[index] for index in self._policy.keep_order(columns, moment).tolist()]
        if prefills or admitter.looking:
            self._prefill(draft, prefills, moment, ahead)
        if left_out and not draft.slices:  # who they were left out for could not start
            draft.decode(left_out)
        return draft

    def _decode(self, draft: Draft, moment: Moment, ahead: StepWork | None) -> tuple[list[Sequence], list[Sequence]]:
        """A token for each running reply; returns those whose prompts are begun, and those left out in haste."""
        roster = self._roster
        if not self._policy.skips or not roster.running_per_tier[Tier.BATCH] or not self._haste.expects(moment.now):
            return draft.decode(roster.running), []
        urgent, patient = self._haste.sort(roster.running)
        prefills = draft.decode(urgent)
        starting = self._admitter.looking and bool(roster.free_slots)
        if patient and self._haste.leaves_out(draft, patient, moment.now, self._seconds(ahead), starting=starting):
            return prefills, patient
        draft.decode(patient)
        return prefills, []

    def _prefill(self, draft: Draft, prefills: list[Sequence], moment: Moment, ahead: StepWork | None) -> None:
        """Spend the step's tokens on prompts: those begun, and those of newcomers that go before or after them."""
        most = self._prompt_tokens(draft, moment, ahead)
        expected = moment.now - self._roster.last_reader_s < READERS_EXPECTED_S
        batch = self._pacer.batch_tokens(draft, most) if expected and self._roster.has_batch else most
        tokens = self._turns.tokens(most, batch)
        alone = len(prefills) == 1 and not self._roster.waiting
        first = None if alone else self._overdue.pick(prefills)
        if first is not None:
            self._go_on(draft, tokens, first, min(LEAST_TOKENS, -(-tokens.left(first.tier) // 2)))
        passed = []
        for sequence in prefills:
            if sequence is first:
                continue
            self._start_newcomers(draft, tokens, over=sequence)
            if not self._go_on(draft, tokens, sequence, tokens.left(sequence.tier)):
                passed.append(sequence)
        self._overdue.without(passed)
        self._start_newcomers(draft, tokens)
        full = tokens.left(Tier.REALTIME) <= 0
        begun = any(sequence.tier is Tier.BATCH for sequence in prefills)
        unseen = full and self._batch_waits  # the step was full before anybody looked at them
        self._turns.spent(tokens, wanted=begun or unseen or self._admitter.passed_over)
        if full:
            self._admitter.out_of_tokens()

    def _go_on(self, draft: Draft, tokens: PromptTokens, sequence: Sequence, most: int) -> int:
        """Go on with a begun prompt, by `most` tokens at most; returns by how many."""
        limit = min(most, self._limits.prefill_chunk)
        if limit <= 0 or sequence.state is not State.RUNNING:
            return 0
        count = draft.prefill(sequence, limit)
        tokens.take(sequence.tier, count)
        return count

    def _start_newcomers(self, draft: Draft, tokens: PromptTokens, over: Sequence | None = None) -> None:
        """Those who come next; with `over`, those who go before that running sequence's prompt."""
        while tokens.left(Tier.REALTIME) > 0 or (self._batch_waits and tokens.left(Tier.BATCH) > 0):
            newcomer = self._admitter.next(tokens.left, over)
            if newcomer is None:
                return
            tokens.take(newcomer.tier, self._start(newcomer, draft, tokens.left(newcomer.tier)))

    @property
    def _batch_waits(self) -> bool:
        return self._roster.waiting.per_tier[Tier.BATCH] > 0

    def _prompt_tokens(self, draft: Draft, moment: Moment, ahead: StepWork | None) -> int:
        """Prompt tokens this step may hold."""
        if not self._times.ready or not self._roster.running_per_tier[Tier.REALTIME]:
            return self._limits.step_tokens - len(draft.slices)
        columns = self._ledger.columns(self._roster.rows_running(), moment.now)
        return self._pacer.tokens(draft, self._pacer.allowance_s(columns, self._seconds(ahead)), 0)

    def _seconds(self, ahead: StepWork | None) -> float:
        return 0.0 if ahead is None else self._times.seconds(ahead)

    def _start(self, sequence: Sequence, draft: Draft, budget: int) -> int:
        """Put a newly seated sequence into the plan; returns its tokens in it."""
        assert sequence.slot is not None
        request = sequence.request
        draft.admissions.append(Admission(sequence.slot, request.sampling, request.prompt_ids, sequence.output_ids))
        return draft.prefill(sequence, min(budget, self._limits.prefill_chunk))
