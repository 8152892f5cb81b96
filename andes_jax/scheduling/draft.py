"""A plan in the making: slices appended as tokens are found for them."""

from __future__ import annotations

from andes_jax.scheduling.plan import Admission, Slice
from andes_jax.scheduling.sequence import Sequence
from andes_jax.scheduling.step_time import StepWork


class Draft:
    """A plan in the making."""

    __slots__ = ("admissions", "context", "decodes", "prefilled", "prefills", "sequences", "slices")

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.sequences: list[Sequence] = []  # aligned with slices
        self.admissions: list[Admission] = []
        self.prefilled: list[Sequence] = []  # whose slices are not plain decodes
        self.prefills: list[tuple[int, int]] = []  # (tokens, positions before them) of slices that are not decodes
        self.decodes = 0  # slices of one token
        self.context = 0  # positions they attend to

    def work(self, copied_pages: int) -> StepWork:
        """What the step's time depends on."""
        return StepWork(self.decodes, self.context, tuple(self.prefills), copied_pages)

    def decode(self, running: list[Sequence]) -> list[Sequence]:
        """A slice of one token for each sequence that only lacks its last; returns those that lack more."""
        new, append = tuple.__new__, self.slices.append
        sequences = self.sequences
        behind: list[Sequence] = []
        context = 0
        for sequence in running:
            first = sequence.computed
            known = sequence.known
            if first + 1 != known or known == sequence.prompt_length:
                if first < known and first < sequence.goal:
                    behind.append(sequence)
                continue
            if first >= sequence.capacity or first >= sequence.goal:
                continue
            ids = sequence.token_ids
            token_ids = None if first >= len(ids) else (ids[first],)
            # Slice(...) by its parts, in half the time: this is the one line that runs for every token.
            parts = (sequence.slot, first, 1, token_ids, sequence.table, True, known - sequence.prompt_length, None)
            append(new(Slice, parts))
            sequence.computed = known
            sequence.known = known + 1
            sequence.in_flight += 1
            sequences.append(sequence)
            context += known
        self.decodes = len(self.slices)
        self.context += context
        return behind

    def prefill(self, sequence: Sequence, limit: int) -> int:
        """A slice of known tokens, `limit` at most; returns how many. It draws when it reaches the last known one."""
        assert sequence.slot is not None
        first = sequence.computed
        count = min(limit, sequence.known - first)
        end = first + count
        ids = sequence.token_ids
        sample = end == sequence.known and end < sequence.max_known
        scores = None
        if not sequence.scored and first < sequence.prompt_length:
            scores = tuple(ids[first + 1 : min(end + 1, sequence.prompt_length)])
        self.slices.append(
            Slice(
                sequence.slot,
                first,
                count,
                tuple(ids[first:end]),
                sequence.table,
                sample,
                sequence.known - sequence.prompt_length,
                scores,
            )
        )
        self.sequences.append(sequence)
        self.prefilled.append(sequence)
        if count == 1 and scores is None:
            self.decodes += 1
            self.context += end
        else:
            self.prefills.append((count, first))
        sequence.computed = end
        sequence.known += sample
        sequence.in_flight += 1
        return count
