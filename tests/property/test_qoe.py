"""What both definitions of quality of experience promise, and that they are the curves and sums they are said to be."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from andes_jax.request import QoeTarget
from andes_jax.scheduling import qoe

ROUNDING = 1e-9
SCORES = pytest.mark.parametrize("score", [qoe.v1, qoe.v2])

targets = st.builds(QoeTarget, first_token_s=st.floats(0.01, 10.0), tokens_per_s=st.floats(0.5, 50.0))
streams = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60).map(np.cumsum)
delays = st.floats(0.0, 30.0)


@SCORES
@given(times=streams, target=targets)
def test_scores_are_from_0_to_1(score, times, target):
    assert 0.0 <= score(times, target) <= 1.0


@SCORES
@given(target=targets, ahead_s=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=60))
def test_never_late_is_perfect(score, target, ahead_s):
    due_s = target.first_token_s + np.arange(len(ahead_s)) / target.tokens_per_s
    times = np.maximum.accumulate(np.maximum(due_s - ahead_s, 0.0))  # still at most what is due
    assert score(times, target) == pytest.approx(1.0, abs=ROUNDING)


@SCORES
@given(times=streams, target=targets, delay_s=delays)
def test_delaying_all_tokens_never_raises_a_score(score, times, target, delay_s):
    assert score(times + delay_s, target) <= score(times, target) + ROUNDING


@SCORES
@given(times=streams, target=targets, first=st.integers(1, 60), delay_s=delays)
def test_delaying_the_first_tokens_never_raises_a_score(score, times, target, first, delay_s):
    later = times.copy()
    later[:first] += delay_s
    if first < times.size:
        later[:first] = np.minimum(later[:first], times[first])  # tokens stay in order
    assert score(later, target) <= score(times, target) + ROUNDING


@given(times=streams, target=targets, data=st.data())
def test_v1_never_rises_by_delays_that_leave_the_last_token(times, target, data):
    shares = data.draw(st.lists(st.floats(0.0, 1.0), min_size=times.size, max_size=times.size))
    later = np.maximum.accumulate(times + np.asarray(shares) * (times[-1] - times))
    assert qoe.v1(later, target) <= qoe.v1(times, target) + ROUNDING


@SCORES
@given(target=targets, count=st.integers(2, 60), token=st.integers(0, 59), delay_s=delays)
def test_no_delay_raises_a_perfect_score(score, target, count, token, delay_s):
    times = target.first_token_s + np.arange(count) / target.tokens_per_s
    times[token % count :] += delay_s
    assert score(times, target) <= 1.0
    if delay_s > 0.1 and token % count == 0:
        assert score(times, target) < 1.0 - ROUNDING


@example(times=np.array([0.0, 2.0]), target=QoeTarget(first_token_s=0.25, tokens_per_s=1.0))
@given(times=streams, target=targets)
def test_v1_is_the_ratio_of_two_areas(times, target):
    last_s = float(times[-1])
    if times.size < 2 or last_s <= target.first_token_s:
        return
    grid = np.linspace(0.0, last_s, 20_001)
    step_s = grid[1]
    expected = np.clip((grid - target.first_token_s) * target.tokens_per_s, 0.0, times.size)
    delivered = np.searchsorted(times, grid, side="right")
    # A curve under `delivered` that climbs no faster than the reader: lowest of delivered(s) + speed * (t - s), s <= t.
    # Before the first moment nothing is delivered, also where a token comes in it.
    ahead = np.minimum(np.minimum.accumulate(delivered - grid * target.tokens_per_s), 0.0)
    digested = grid * target.tokens_per_s + ahead
    whole = np.trapezoid(expected, grid)
    if whole < 1e-3:
        return
    # The grid sees every arrival up to one step late or early.
    error = 2 * step_s * times.size / whole + 1e-6
    assert qoe.v1(times, target) == pytest.approx(min(1.0, np.trapezoid(digested, grid) / whole), abs=error)


@given(times=streams, target=targets)
def test_v2_is_the_recurrence_of_the_paper(times, target):
    if times.size < 2:
        return
    per_token_s = 1.0 / target.tokens_per_s
    reader, gap = times[0], 0.0
    for index, time_s in enumerate(times):
        gap += max(reader - (target.first_token_s + index * per_token_s), 0.0)
        reader = max(time_s, reader + per_token_s)
    whole = (2 * reader - 2 * target.first_token_s - times.size * per_token_s) * times.size / 2
    if whole <= ROUNDING:
        return
    assert qoe.v2(times, target) == pytest.approx(min(1.0, 1.0 - gap / whole), abs=ROUNDING)
