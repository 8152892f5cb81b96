import numpy as np
import pytest

from andes_jax.request import QoeTarget
from andes_jax.scheduling import qoe

TARGET = QoeTarget(first_token_s=1.0, tokens_per_s=2.0)  # expected at 1.0, 1.5, 2.0, ...
SCORES = pytest.mark.parametrize("score", [qoe.v1, qoe.v2])


@SCORES
def test_nothing_delivered_is_worth_nothing(score):
    assert score([], TARGET) == 0.0


@SCORES
def test_a_single_token_is_judged_by_its_time(score):
    assert score([0.5], TARGET) == score([1.0], TARGET) == 1.0
    assert score([4.0], TARGET) == 0.25


@SCORES
def test_a_stream_over_before_it_was_expected_is_perfect(score):
    assert score([0.1, 0.2, 0.3], TARGET) == 1.0


@SCORES
def test_tokens_exactly_when_expected_are_perfect(score):
    assert score(1.0 + 0.5 * np.arange(100), TARGET) == pytest.approx(1.0, abs=1e-12)


@SCORES
def test_a_burst_ahead_of_the_reader_makes_up_for_a_later_pause(score):
    assert score([0.5, 0.5, 0.5, 0.5, 2.4], TARGET) == pytest.approx(1.0, abs=1e-12)


def test_v1_by_hand():
    # Expected until 3.0: a triangle of 2 s, risen to 4 tokens but for the cap of 3 reached at 2.5: 2.25 + 1.5 = 3.75.
    # Read: token 0 from 2.0 (ready by 2.5), token 1 from 2.5 (ready by 3.0), token 2 from 3.0: 0.75 + 0.25 + 0.
    assert qoe.v1([2.0, 2.0, 3.0], TARGET) == pytest.approx(1.0 / 3.75)


def test_v2_by_hand():
    # Reader 2.0, 2.5, 3.0 where 1.0, 1.5, 2.0 were expected: a gap of 3; it ends at max(3.0, 3.5), so the whole is
    # (7 - 2 - 1.5) * 3 / 2.
    assert qoe.v2([2.0, 2.0, 3.0], TARGET) == pytest.approx(1 - 3 / 5.25)


def test_v2_sees_a_stall_from_the_token_after_it():
    # Reader 1.0, 1.5, 5.0 where 1.0, 1.5, 2.0 were expected; it ends at 5.5.
    assert qoe.v2([1.0, 5.0, 5.0], TARGET) == pytest.approx(1 - 3 / ((11 - 2 - 1.5) * 1.5))


@SCORES
def test_a_late_last_token_may_raise_the_score_of_a_late_stream(score):
    """The definitions' own flaw: written down, so that nobody builds on monotony in every single token."""
    late = [3.0] * 20
    assert score([*late, 60.0], TARGET) > score([*late, 3.0], TARGET)


def test_v2_may_rise_even_where_the_last_token_stays():
    assert qoe.v2([3.0, 3.0, 9.9, 10.0], TARGET) > qoe.v2([3.0, 3.0, 9.5, 10.0], TARGET)
