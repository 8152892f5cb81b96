"""andes_jax.simulation.loop: quiet stretches taken in as one event give what single steps give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.request import QoeTarget, Tier
from andes_jax.scheduling.policies import SIMULATED_NAMES
from andes_jax.workload.arrival import Arrival
from tests.simulations import LinearTimes, arrive, exact_request_of, request_of, simulation

ARRIVALS = st.lists(
    st.builds(
        Arrival,
        arrived_s=st.floats(0, 60),
        prompt_tokens=st.integers(1, 60),
        output_tokens=st.integers(1, 80),
        tier=st.sampled_from(Tier),
        qoe=st.none() | st.builds(QoeTarget, st.floats(0.1, 5), st.floats(0.5, 20)),
        cancel_after_s=st.none() | st.none() | st.floats(0, 30),
    ),
    min_size=1,
    max_size=12,
)
MACHINES = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(SIMULATED_NAMES),
        "pages": st.sampled_from([40, 60, 90, 400]),
        "slots": st.integers(1, 8),
        "host_pages": st.sampled_from([0, 30]),
        "host_s": st.sampled_from([0.0, 0.01, 0.3]),
        "requests": st.sampled_from([request_of, exact_request_of]),
        "times": st.builds(
            LinearTimes,
            step=st.sampled_from([0.05, 0.25]),
            decode=st.sampled_from([0.0, 0.01]),
            context=st.sampled_from([0.0, 0.0001]),
            prefill=st.just(0.002),
            page=st.just(0.001),
        ),
    }
)


def described(run):
    return [
        (each.finish, each.preemptions, each.waited_s, each.token_times_s.tolist()) for each in run.run()
    ], run.steps


@settings(max_examples=80, deadline=None)
@given(ARRIVALS, MACHINES)
def test_leaps_give_what_single_steps_give(arrivals, machine):
    leaping, stepping = (simulation(arrivals, leap=leap, **machine) for leap in (True, False))
    leapt, leapt_steps = described(leaping)
    stepped, steps = described(stepping)
    assert stepping.leaps == 0
    assert leapt_steps == steps
    for one, other in zip(leapt, stepped, strict=True):
        assert one[:2] == other[:2]
        assert one[2] == pytest.approx(other[2])
        np.testing.assert_allclose(one[3], other[3], rtol=0, atol=1e-9)
    assert leaping.busy_s == pytest.approx(stepping.busy_s)
    for run in (leaping, stepping):
        run._scheduler.pool.check()
        assert run._scheduler.pool.live == 0


def test_long_replies_are_mostly_leapt_over():
    run = simulation([arrive(0.0, output=200), arrive(0.0, output=150)], pages=400)
    run.run()
    assert 0 < run.leaps < 20 and run.steps == 201
