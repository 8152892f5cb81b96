"""What a committed step brings each sequence."""

from __future__ import annotations

from typing import NamedTuple

from andes_jax.events import TokenLogprobs
from andes_jax.request import FinishReason
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.plan import Slice, StepResult
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


class Advancer:
    """Appends tokens, finds ends, and lets go of what nothing in flight uses any more."""

    def __init__(self, roster: Roster, paging: Paging) -> None:
        self._roster = roster
        self._paging = paging
        self._page_tokens = paging.page_tokens
        self._page_is_full = 1 % paging.page_tokens  # a page's last token is computed once the next one is drawn

    def advance(
        self, sequences: list[Sequence], slices: list[Slice], result: StepResult, ledger: Ledger, now: float
    ) -> tuple[list[Advance], int]:
        """Take in a step's result; returns what it brought, in the plan's order, and how many tokens were drawn."""
        finite = None if result.finite.all() else result.finite.tolist()
        drawn_rows = [
            sequence.row
            for index, (sequence, part) in enumerate(zip(sequences, slices, strict=True))
            if part.sample and sequence.row is not None and (finite is None or finite[index])
        ]
        if drawn_rows:
            ledger.deliver(drawn_rows, now)
        advances: list[Advance] = []
        vacate = self._roster.vacate
        drawn, scored = result.logprobs, result.scores
        for index, (sequence, part, token_id) in enumerate(
            zip(sequences, slices, result.token_ids.tolist(), strict=True)
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
        return advances, len(drawn_rows)

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
            self._roster.finish(sequence, FinishReason.LENGTH)
            return Advance(sequence, (), FinishReason.LENGTH, (), prompt_logprobs)
        ids = sequence.token_ids
        ids.append(token_id)
        count = len(ids)
        finish = None
        if token_id in sequence.stop_ids:
            finish = FinishReason.STOP
        elif count == sequence.max_known:
            finish = FinishReason.LENGTH
        if count % self._page_tokens == self._page_is_full:
            self._paging.publish(sequence)
        if finish is not None:
            self._roster.finish(sequence, finish)
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
        self._paging.distrust(sequence)
        self._roster.finish(sequence, FinishReason.FAILED)
        message = "the model's output for this request was not finite (NaN or infinity)"
        return Advance(sequence, (), FinishReason.FAILED, message=message)
