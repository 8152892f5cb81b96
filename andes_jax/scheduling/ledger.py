"""One row of numbers per live sequence, so that thousands are ranked and whole steps are accounted without a walk.

The reader's clock is QoE v2's (Liu et al., arXiv 2404.16283v2): token i is due at first_due + i * pace; the reader
takes it at `reader`, and reader = max(token's time, reader + pace) is when the next one is wanted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from andes_jax.prediction.lengths import LengthPredictor
from andes_jax.scheduling.sequence import Sequence

(TIER, ARRIVED, QUEUED, ORDER, PROMPT, GENERATED, LIMIT, FIRST_DUE, PACE, READER, GAP, PREDICTED, TO_COMPUTE, HELD) = (
    range(14)
)
FIELDS = 14


class Columns(NamedTuple):
    """One entry per sequence, all float64 [n] but tier."""

    tier: np.ndarray  # int64
    arrived_s: np.ndarray
    queued_s: np.ndarray  # when it last began to wait
    order: np.ndarray  # arrival number
    context: np.ndarray  # tokens of prompt and reply so far
    generated: np.ndarray  # tokens of the reply so far
    remaining: np.ndarray  # tokens of the reply still to come, expected
    to_compute: np.ndarray  # known tokens whose keys and values are to be computed before the next draw
    slack_s: np.ndarray  # until the reader needs the next token; inf where nobody reads along
    pace_s: np.ndarray  # seconds in which the reader reads a token; 0 where nobody does
    held_s: np.ndarray  # since when a running one has its slot; for others the last time


class Ledger:
    """Rows are taken at arrival and given back at the end; a sequence's row never moves."""

    def __init__(self, predictor: LengthPredictor) -> None:
        self.predictor = predictor
        self._table = np.zeros((64, FIELDS))
        self._free = list(range(63, -1, -1))

    def enter(self, sequence: Sequence) -> None:
        """Give the sequence a row."""
        if not self._free:
            size = len(self._table)
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
            self._free = list(range(2 * size - 1, size - 1, -1))
        sequence.row = row = self._free.pop()
        request = sequence.request
        target = request.qoe
        due = 0.0 if target is None else request.arrived_s + target.first_token_s
        predicted = self.predictor.predict(request)
        self._table[row] = (
            sequence.tier,
            request.arrived_s,
            sequence.queued_s,
            sequence.order,
            sequence.prompt_length,
            0,
            request.sampling.max_tokens,
            due,
            0.0 if target is None else 1.0 / target.tokens_per_s,
            math.inf if target is None else due,
            0.0,
            math.nan if predicted is None else predicted,
            sequence.prompt_length,
            sequence.queued_s,
        )

    def leave(self, sequence: Sequence) -> None:
        """Take the row back."""
        assert sequence.row is not None
        self._free.append(sequence.row)
        sequence.row = None

    def wait(self, sequence: Sequence, to_compute: int) -> None:
        """The sequence waits from `queued_s` on, with so many tokens to compute."""
        row = self._table[sequence.row]
        row[QUEUED] = sequence.queued_s
        row[TO_COMPUTE] = to_compute

    def hold(self, sequence: Sequence, now: float) -> None:
        """The sequence has a slot from now on."""
        self._table[sequence.row, HELD] = now

    def columns(self, rows: np.ndarray, now: float) -> Columns:
        """Columns of the given rows [n]."""
        table = self._table[rows].T
        generated = table[GENERATED]
        return Columns(
            table[TIER].astype(np.int64),
            table[ARRIVED],
            table[QUEUED],
            table[ORDER],
            table[PROMPT] + generated,
            generated,
            self.predictor.remaining(table[PREDICTED], generated, table[LIMIT]),
            table[TO_COMPUTE],
            table[READER] - now,
            table[PACE],
            table[HELD],
        )

    def deliver(self, rows: list[int], now: float) -> None:
        """Each of these rows got its next token now; no row twice."""
        table = self._table
        where = np.array(rows)
        got = table[where]
        count, pace = got[:, GENERATED], got[:, PACE]
        reads = pace > 0
        reader = np.where((count == 0) & reads, now, got[:, READER])
        due = got[:, FIRST_DUE] + count * pace
        late = np.where(reads, reader - due, 0.0)
        got[:, GAP] += np.maximum(late, 0.0)
        got[:, READER] = np.maximum(reader + pace, now)
        got[:, GENERATED] = count + 1
        table[where] = got

    def deliver_many(self, rows: np.ndarray, times_s: np.ndarray) -> None:
        """Each of these rows [n], which all have tokens already, got one token at each of these times [k]."""
        table = self._table
        got = table[rows]
        pace, reader = got[:, PACE], got[:, READER]
        due = got[:, FIRST_DUE] + got[:, GENERATED] * pace
        reads = pace > 0
        for now in times_s.tolist():
            got[:, GAP] += np.maximum(np.where(reads, reader - due, 0.0), 0.0)
            reader = np.maximum(reader + pace, now)
            due = due + pace
        got[:, READER] = reader
        got[:, GENERATED] += len(times_s)
        table[rows] = got

    def slack_s(self, sequence: Sequence, now: float) -> float:
        """Seconds until the reader needs the next token; inf where nobody reads along."""
        return float(self._table[sequence.row, READER]) - now

    def qoe(self, sequence: Sequence) -> float | None:
        """Quality of experience (v2) of the tokens so far, in [0, 1]; 0 without any, None where nobody reads along."""
        target = sequence.request.qoe
        if target is None:
            return None
        row = self._table[sequence.row]
        count = int(row[GENERATED])
        if count == 0:
            return 0.0
        arrived, pace, first_due = row[ARRIVED], row[PACE], row[FIRST_DUE]
        whole = (2 * (row[READER] - first_due) - count * pace) * count / 2
        if count == 1:
            first = row[READER] - pace - arrived
            return 1.0 if first <= target.first_token_s else float(target.first_token_s / first)
        if whole <= 0:  # so early that nothing was ever due
            return 1.0
        return float(min(1.0, max(0.0, 1.0 - row[GAP] / whole)))
