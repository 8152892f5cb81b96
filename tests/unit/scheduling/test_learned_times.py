from __future__ import annotations

import numpy as np
import pytest

from andes_jax.scheduling.learned_times import OUTLIER, LearnedTimes, features
from andes_jax.scheduling.step_time import StepWork

# Seconds a step, decode, position attended to, prefill slice, prefill token, token * position, copied page.
TRUE_S = (0.012, 3e-5, 4e-8, 4e-4, 6e-5, 2e-9, 2e-4)


def true_seconds(work: StepWork) -> float:
    return sum(cost * amount for cost, amount in zip(TRUE_S, features(work), strict=True))


def random_work(rng: np.random.Generator) -> StepWork:
    decodes = int(rng.integers(0, 128))
    prefills = [(int(rng.integers(1, 512)), int(rng.integers(0, 4000))) for _ in range(rng.integers(0, 3))]
    copied = int(rng.integers(1, 200)) if rng.random() < 0.2 else 0
    return StepWork(decodes, decodes * int(rng.integers(1, 4000)), tuple(prefills), copied)


def taught(steps: int = 3000, *, seed: int = 1, noise: float = 0.0, outliers: float = 0.0, scale: float = 1.0):
    rng, times = np.random.default_rng(seed), LearnedTimes(50)
    for _ in range(steps):
        work = random_work(rng)
        seconds = scale * true_seconds(work) * rng.lognormal(0, noise)
        times.observe(work, seconds * (100 if rng.random() < outliers else 1))
    return times


def errors(times: LearnedTimes, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(99)
    works = [random_work(rng) for _ in range(200)]
    return np.array([times.seconds(work) / (scale * true_seconds(work)) - 1 for work in works])


def test_features_by_hand():
    work = StepWork(3, 40, ((10, 100), (7, 0)), 5)
    assert features(work) == (1.0, 3, 40, 2, 17, 10 * 105 + 7 * 3, 5)
    assert features(StepWork()) == (1.0, 0, 0, 0, 0, 0, 0)


def test_costs_are_recovered():
    assert np.abs(errors(taught())).max() < 0.01
    # The weight of what was believed before anything was seen is small but not nothing.
    np.testing.assert_allclose(taught()._seconds, TRUE_S, rtol=0.15)


def test_costs_are_recovered_from_noisy_steps():
    found = errors(taught(noise=0.1))
    assert abs(found.mean()) < 0.03 and np.abs(found).max() < 0.12


def test_pauses_of_the_machine_teach_little():
    # One step in a hundred takes a hundred times as long; each counts as five times, so 4 % more is all there can be.
    found = errors(taught(outliers=0.01))
    assert found.min() > -0.02 and np.abs(found).mean() < 0.06 and found.max() < 0.15


def test_a_single_outlier_counts_as_a_few_times_what_was_expected():
    work = StepWork(10, 1000)
    one, other = taught(200), taught(200)
    one.observe(work, 1e6)
    other.observe(work, OUTLIER * other.seconds(work))
    np.testing.assert_array_equal(one._normal, other._normal)
    np.testing.assert_array_equal(one._target, other._target)


def test_no_cost_is_ever_negative():
    rng, times = np.random.default_rng(4), LearnedTimes(0)
    for _ in range(300):
        times.observe(random_work(rng), rng.lognormal(-5, 2))
        assert min(times._seconds) >= 0.0


def test_a_machine_that_has_become_slower_is_learnt_anew():
    times, rng = taught(2000), np.random.default_rng(8)
    for _ in range(3000):
        work = random_work(rng)
        times.observe(work, 2 * true_seconds(work))
    assert abs(np.median(errors(times, scale=2.0))) < 0.08


def test_steps_without_a_duration_teach_nothing():
    times = LearnedTimes(1)
    before = times.seconds(StepWork(5, 50))
    times.observe(StepWork(5, 50), 0.0)
    times.observe(StepWork(5, 50), -1.0)
    assert times.seen == 0 and not times.ready and times.seconds(StepWork(5, 50)) == before > 0


def test_predictions_steer_after_the_warmup():
    assert LearnedTimes(0).ready
    times = LearnedTimes(3)
    for ready in (False, False, True):
        times.observe(StepWork(1, 1), 0.01)
        assert times.ready == ready


def test_copies_are_part_of_the_same_line():
    times = taught(400)
    added = times.seconds(StepWork(8, 100, (), 30)) - times.seconds(StepWork(8, 100))
    assert times.copy_seconds(30) == pytest.approx(added) and times.copy_seconds(0) == 0.0


def test_a_step_thought_to_cost_nothing_teaches_as_any_other():
    times = LearnedTimes(0)
    times._seconds = [0.0] * len(TRUE_S)
    times.observe(StepWork(1, 10), 0.5)
    assert np.isfinite(times._normal).all() and times.seconds(StepWork(1, 10)) > 0
