"""Arrival processes: their rate, their burstiness, and their spelling."""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.failure import UsageError
from andes_jax.workload.process import Process, arrival_times, parse_process


def times(process: Process, rate: float, duration_s: float, seed: int = 1) -> np.ndarray:
    return arrival_times(process, rate, duration_s, np.random.default_rng(seed))


@pytest.mark.parametrize("words", ["poisson", "gamma:0.5", "gamma:3", "on_off:20/40"])
def test_the_rate_is_kept_whatever_the_process(words):
    drawn = times(parse_process(words), 5.0, 6000.0)
    assert len(drawn) == pytest.approx(30_000, rel=0.06)
    assert drawn[0] >= 0 and drawn[-1] < 6000 and (np.diff(drawn) >= 0).all()


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gamma_gaps_vary_as_asked(cv):
    gaps = np.diff(times(Process("gamma", cv=cv), 10.0, 3000.0))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_poisson_is_gamma_with_cv_one():
    assert (times(Process(), 3.0, 50.0) == times(Process("gamma"), 3.0, 50.0)).all()


def test_nobody_comes_while_it_is_off():
    drawn = times(Process("on_off", on_s=10.0, off_s=20.0), 2.0, 95.0)
    assert (drawn % 30 < 10).all()
    assert {int(time // 30) for time in drawn} == {0, 1, 2, 3}


def test_another_rate_is_the_same_pattern_faster():
    slow, fast = times(Process("gamma", cv=2.0), 2.0, 100.0), times(Process("gamma", cv=2.0), 4.0, 50.0)
    assert fast == pytest.approx(slow / 2)


def test_spelling():
    assert parse_process("Poisson") == Process()
    assert parse_process("gamma:2.5") == Process("gamma", cv=2.5)
    assert parse_process("on-off:30/60") == Process("on_off", on_s=30, off_s=60)


@pytest.mark.parametrize(
    "words",
    ["", "uniform", "poisson:2", "gamma", "gamma:0", "gamma:nan", "on_off:30", "on_off:0/9", "on_off:9/-1"],
)
def test_wrong_spelling_is_answered_with_the_right_one(words):
    with pytest.raises(UsageError, match="poisson, gamma:CV or on_off:ON_SECONDS/OFF_SECONDS") as caught:
        parse_process(words)
    assert words in str(caught.value)
