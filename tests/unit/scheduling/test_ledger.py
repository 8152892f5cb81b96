from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from andes_jax.prediction.lengths import LengthHistory
from andes_jax.request import QoeTarget, Tier
from andes_jax.scheduling import qoe
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request

READER = QoeTarget(first_token_s=1.0, tokens_per_s=2.0)  # due at 1.0, 1.5, 2.0, ... from arrival


class Foreseen(LengthHistory):
    """Every reply is predicted to have as many tokens."""

    def __init__(self, tokens: float | None) -> None:
        super().__init__()
        self.tokens = tokens

    def predict(self, request):
        return self.tokens


def entered(ledger: Ledger, order: int = 1, prompt: int = 3, max_tokens: int = 50, **options) -> Sequence:
    sequence = Sequence(make_request(f"r{order}", range(prompt), max_tokens, **options), order)
    ledger.enter(sequence)
    return sequence


def columns_of(ledger: Ledger, now: float, *sequences: Sequence) -> dict[str, list[float]]:
    rows = np.array([sequence.row for sequence in sequences])
    return {name: value.tolist() for name, value in ledger.columns(rows, now)._asdict().items()}


def test_columns_by_hand():
    ledger = Ledger(Foreseen(20))
    one = entered(ledger, 1, prompt=3, tier=Tier.REALTIME, arrived_s=10.0, qoe=READER)
    two = entered(ledger, 2, prompt=7, max_tokens=5, tier=Tier.BATCH, arrived_s=11.0)
    two.queued_s = 13.0
    ledger.wait(two, 4)
    ledger.hold(one, 12.0)
    ledger.deliver([one.row], 12.5)
    assert columns_of(ledger, 12.75, one, two) == {
        "tier": [0, 2], "arrived_s": [10, 11], "queued_s": [10, 13], "order": [1, 2], "context": [4, 7],
        "generated": [1, 0], "remaining": [19, 5], "to_compute": [3, 4], "slack_s": [0.25, inf],
        "pace_s": [0.5, 0], "held_s": [12, 11],
    }  # fmt: skip
    assert ledger.slack_s(one, 12.0) == 1.0 and ledger.slack_s(two, 1e9) == inf


def test_the_readers_clock_by_hand():
    ledger = Ledger(LengthHistory())
    sequence = entered(ledger, arrived_s=100.0, qoe=READER)
    assert ledger.slack_s(sequence, 100.0) == 1.0, "the first token is due"
    for time_s, wanted_s in [(2.0, 2.5), (2.0, 3.0), (3.0, 3.5), (9.0, 9.0)]:
        ledger.deliver([sequence.row], 100.0 + time_s)
        assert ledger.slack_s(sequence, 100.0) == pytest.approx(wanted_s)
    # Late by 1 at each of the first three; the fourth was wanted at 3.5 and due at 2.5. The reader ends at 9.
    assert ledger.qoe(sequence) == pytest.approx(1 - 4 / ((18 - 2 - 2) * 4 / 2))


def test_without_a_reader_there_is_no_quality_and_without_tokens_none():
    ledger = Ledger(LengthHistory())
    unread, unserved = entered(ledger, 1), entered(ledger, 2, qoe=READER)
    ledger.deliver([unread.row], 5.0)
    assert ledger.qoe(unread) is None and ledger.qoe(unserved) == 0.0


TIMES = st.lists(st.floats(0, 5) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=30)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(TIMES, st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4),
    st.floats(0, 1e4), st.floats(0.01, 10), st.floats(0.1, 50),
)  # fmt: skip
@example([([0.5], 0, 0)], 0.0, 1.0, 2.0)
@example([([9.0, 0.0], 0, 9)], 0.0, 1.0, 2.0)
def test_the_quality_of_experience_is_v2s_however_tokens_are_accounted(streams, arrived_s, first_token_s, speed):
    """Some tokens one by one, a stretch of them at once, and the rest one by one; several rows together."""
    ledger, target = Ledger(LengthHistory()), QoeTarget(first_token_s, speed)
    for order, (gaps, begin, count) in enumerate(streams):
        times = np.cumsum(gaps)
        sequence = entered(ledger, order, max_tokens=90, arrived_s=arrived_s, qoe=target)
        begin = min(begin, len(times) - 1) + 1  # the first token is never one of many
        for time in times[:begin]:
            ledger.deliver([sequence.row], arrived_s + time)
        many = times[begin : begin + count]
        ledger.deliver_many(np.array([sequence.row]), arrived_s + many)
        for time in times[begin + len(many) :]:
            ledger.deliver([sequence.row], arrived_s + time)
        assert ledger.qoe(sequence) == pytest.approx(qoe.v2(times, target), abs=1e-6)
        assert columns_of(ledger, 0.0, sequence)["generated"] == [len(times)]


def test_many_rows_and_steps_at_once_are_as_single_ones():
    rng = np.random.default_rng(3)
    one, other = Ledger(LengthHistory()), Ledger(LengthHistory())
    targets = [None if index % 4 == 0 else QoeTarget(rng.uniform(0, 2), rng.uniform(1, 30)) for index in range(20)]
    pairs = [[entered(each, index, qoe=target) for each in (one, other)] for index, target in enumerate(targets)]
    rows = [sequence.row for sequence, _ in pairs]
    ends = np.cumsum(rng.exponential(0.1, 50))
    for ledger in (one, other):
        ledger.deliver(rows, 1.0)
    one.deliver_many(np.array(rows), 1.0 + ends)
    for now in ends:
        other.deliver(rows, 1.0 + now)
    np.testing.assert_allclose(one._table, other._table, rtol=1e-12)
    for single, twin in pairs:
        assert one.qoe(single) == (None if single.request.qoe is None else pytest.approx(other.qoe(twin)))
    one.deliver_many(np.array(rows), np.array([]))
    np.testing.assert_allclose(one._table, other._table, rtol=1e-12)


def test_rows_are_used_again_from_scratch_and_never_move():
    ledger = Ledger(LengthHistory())
    many = [entered(ledger, order, arrived_s=float(order)) for order in range(300)]
    rows = [sequence.row for sequence in many]
    assert sorted(rows) == sorted(set(rows))
    assert columns_of(ledger, 0.0, *many)["arrived_s"] == list(range(300))
    gone = many[7]
    row = gone.row
    ledger.deliver([row], 9.0)
    ledger.leave(gone)
    assert gone.row is None
    new = entered(ledger, 500, arrived_s=77.0, qoe=READER)
    assert new.row == row and columns_of(ledger, 77.0, new)["generated"] == [0] and ledger.qoe(new) == 0.0
    assert [sequence.row for sequence in many if sequence is not gone] == [each for each in rows if each != row]
    with pytest.raises(AssertionError):
        ledger.leave(gone)


def test_what_is_expected_to_come_is_the_predictors_word():
    ledger = Ledger(Foreseen(None))
    sequence = entered(ledger, max_tokens=9000)
    assert columns_of(ledger, 0.0, sequence)["remaining"] == ledger.predictor.residual(np.zeros(1)).tolist()
    ledger.predictor.tokens = 40.0
    again = entered(ledger, 2, max_tokens=9000)
    assert columns_of(ledger, 0.0, again)["remaining"] == [40.0]
