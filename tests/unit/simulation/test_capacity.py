"""andes_jax.simulation.capacity"""

from __future__ import annotations

import math

import numpy as np
import pytest

from andes_jax.failure import UserError
from andes_jax.simulation.capacity import Devices, critical_rate, demand, qoe_at
from andes_jax.simulation.contender import parse_contender
from andes_jax.simulation.profiles import load_profile
from andes_jax.simulation.sweep import Study, runs
from andes_jax.workload.arrivals import Workload
from andes_jax.workload.readers import Readers
from andes_jax.workload.traces import TraceRow


def falling(limit: float):
    """Quality 1 up to the limit, then falling; two seeds that differ."""
    return lambda rate: [min(1.0, math.exp(limit - rate)) + error for error in (-0.004, 0.004)]


@pytest.mark.parametrize("limit", [0.013, 0.7, 1.0, 3.3, 250.0])
def test_the_crossing_is_found_wherever_it_is(limit):
    found = critical_rate(falling(limit), 0.9, precision=0.01)
    assert found.rate == pytest.approx(limit - math.log(0.9), rel=0.011)
    assert list(found.evaluated) == sorted(found.evaluated) and len(found.evaluated) < 30


def test_the_mean_over_seeds_counts_and_each_rate_is_told():
    told = []
    critical_rate(lambda rate: [0.85, 0.97] if rate <= 2 else [0.0, 0.97], 0.9, tell=lambda *both: told.append(both))
    assert told[0] == (1.0, pytest.approx(0.91)) and len(told) == len(set(told))


def test_no_crossing_is_an_error_in_words():
    with pytest.raises(UserError, match="whatever the rate"):
        critical_rate(lambda rate: [1.0], 0.9)
    with pytest.raises(UserError, match="out of reach"):
        critical_rate(lambda rate: [0.5], 0.9)


def test_demand_is_the_mean_and_the_busiest_minute():
    times = [*np.arange(0.0, 600.0, 2.0), *(300.0 + np.arange(60) / 60)]
    mean, peak = demand([TraceRow(float(at), 1, 1, None) for at in times])
    assert mean == pytest.approx(360 / 598) and peak == pytest.approx((30 + 60) / 60, abs=0.02)
    assert demand([TraceRow(None, 1, 1, None)] * 3) == (None, None)
    short = demand([TraceRow(float(at), 1, 1, None) for at in range(5)])
    assert short[0] == short[1] == pytest.approx(5 / 4)


def test_devices_are_whole():
    devices = Devices(2.0, 3.0, 4.1)
    assert (devices.for_mean, devices.for_peak) == (2, 3)
    assert Devices(2.0, None, None).for_peak is None


def test_quality_is_of_readers():
    rows = [TraceRow(index * 0.5, 50, 10, None) for index in range(10)]
    profile = load_profile("h200:llama-3-8b", 20_000)
    with runs(Study(rows, Workload(), profile), 1) as run_all:
        assert qoe_at(run_all, parse_contender("fcfs"), 2)(1.0) == [1.0, 1.0]
    with (
        runs(Study(rows, Workload(readers=Readers("none")), profile), 1) as run_all,
        pytest.raises(UserError, match="nobody reads along"),
    ):
        qoe_at(run_all, parse_contender("fcfs"), 1)(1.0)
