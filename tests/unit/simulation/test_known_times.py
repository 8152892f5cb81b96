"""andes_jax.simulation.known_times"""

from __future__ import annotations

from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.known_times import KnownTimes
from tests.simulations import LinearTimes


def test_it_knows_from_the_first_step_and_learns_nothing():
    times = LinearTimes(1.0, decode=0.1, context=0.01, prefill=0.001, page=0.5)
    known = KnownTimes(times, 0.5)
    work = StepWork(2, 30, ((10, 0),), 1)
    assert known.ready and known.seconds(work) == times.seconds(work)
    known.observe(work, 99.0)
    assert known.seconds(work) == times.seconds(work)
    assert known.copy_seconds(3) == 1.5
