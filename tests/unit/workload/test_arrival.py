"""What a workload's request may be."""

from __future__ import annotations

import math

import pytest

from andes_jax.request import Tier
from andes_jax.workload.arrival import Arrival


def test_somebody_reads_in_realtime_unless_said_otherwise():
    arrival = Arrival(0.5, 10, 20)
    assert (arrival.tier, arrival.qoe, arrival.cancel_after_s) == (Tier.REALTIME, None, None)


@pytest.mark.parametrize(
    "values",
    [(-1.0, 1, 1), (math.nan, 1, 1), (0.0, 0, 1), (0.0, 1, 0), (0.0, 1, 1, Tier.BATCH, None, -0.1)],
)
def test_impossible_requests_are_errors(values):
    with pytest.raises(ValueError):
        Arrival(*values)
