from __future__ import annotations

import numpy as np
import pytest

from andes_jax.prediction.lengths import LEAST, OVERDUE_SHARE, OVERDUE_TOKENS, LengthHistory
from tests.fakes import make_request

NEVER = 1e9
REQUEST = make_request("a", [1], 1)


def taught(*lengths: int, times: int = 1000) -> LengthHistory:
    history = LengthHistory()
    for _ in range(times):
        for length in lengths:
            history.finished(REQUEST, length)
    return history


def left(history: LengthHistory, generated: int, limit: float = NEVER, predicted: float = np.nan) -> float:
    return float(history.remaining(np.array([predicted]), np.array([float(generated)]), np.array([limit]))[0])


def test_at_first_replies_are_as_if_they_had_no_memory():
    history = LengthHistory()
    assert history.predict(REQUEST) is None
    for generated in (0, 100, 1000):
        assert left(history, generated) == pytest.approx(LengthHistory.PRIOR_MEAN, rel=0.05)


def test_what_is_left_is_the_mean_over_replies_that_got_as_far():
    history = taught(100, 300)
    # Within half a bucket, and but for the made-up replies it began with: a hundredth of all.
    assert left(history, 0) == pytest.approx(200, abs=8)
    assert left(history, 40) == pytest.approx(160, abs=8)
    assert left(history, 120) == pytest.approx(180, abs=8), "those of 100 tokens are over"
    assert left(history, 280) == pytest.approx(20, abs=8)


def test_where_nobody_got_the_prior_speaks_and_nothing_ends_at_once():
    history = taught(100)
    assert left(history, 96) >= LEAST
    assert left(history, 500) == pytest.approx(LengthHistory.PRIOR_MEAN, rel=0.05)
    assert left(history, 10**8) >= LEAST, "longer than anything counted"


def test_the_limit_bounds_what_is_left():
    history = taught(300)
    assert left(history, 0, limit=50) == 50 and left(history, 49, limit=50) == 1
    assert left(history, 50, limit=50) == 1, "one that still runs has a token to come"
    assert left(history, 0, limit=50, predicted=80.0) == 50


def test_predictions_go_before_experience_until_they_are_outrun():
    history = taught(1000)
    assert left(history, 30, predicted=100.0) == 70
    assert left(history, 100, predicted=100.0) == OVERDUE_SHARE * 100 + OVERDUE_TOKENS
    assert left(history, 250, predicted=100.0) == OVERDUE_SHARE * 250 + OVERDUE_TOKENS


def test_old_replies_are_forgotten():
    history = taught(800, times=LengthHistory.MEMORY)
    for _ in range(4 * LengthHistory.MEMORY):
        history.finished(REQUEST, 40)
    assert left(history, 0) < 120
    assert history._weight <= LengthHistory.MEMORY + 1


def test_the_table_is_renewed_now_and_then():
    history = LengthHistory()
    before = left(history, 0)
    for _ in range(LengthHistory.STALE_AFTER - 1):
        history.finished(REQUEST, 8)
    assert left(history, 0) == before
    history.finished(REQUEST, 8)
    assert left(history, 0) < before / 2


def test_many_at_once_are_as_one_by_one():
    history = taught(20, 90, 400)
    generated = np.array([0.0, 10.0, 30.0, 100.0, 399.0, 5000.0])
    predicted = np.array([np.nan, 55.0, np.nan, 90.0, np.nan, np.nan])
    limit = np.array([NEVER, 40.0, 60.0, NEVER, 400.0, NEVER])
    together = history.remaining(predicted, generated, limit)
    alone = [left(history, int(g), li, p) for p, g, li in zip(predicted, generated, limit, strict=True)]
    assert together.tolist() == alone
