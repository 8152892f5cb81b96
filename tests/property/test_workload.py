"""Workloads of any kind: in order, within bounds, and decided by their seed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.request import Tier
from andes_jax.workload.arrivals import Workload, make_arrivals
from andes_jax.workload.process import Process
from andes_jax.workload.readers import Readers
from andes_jax.workload.traces import TraceRow

ROWS = [TraceRow(None, 10 + index, 5 + index) for index in range(50)]
PROCESSES = st.one_of(
    st.just(Process()),
    st.builds(lambda cv: Process("gamma", cv=cv), st.floats(0.1, 10)),
    st.builds(lambda on, off: Process("on_off", on_s=on, off_s=off), st.floats(0.5, 20), st.floats(0, 20)),
)
WORKLOADS = st.builds(
    Workload,
    rate=st.floats(0.05, 20),
    process=PROCESSES,
    duration_s=st.floats(1, 60),
    tiers=st.sampled_from([None, ((Tier.REALTIME, 0.5), (Tier.BATCH, 0.5))]),
    readers=st.sampled_from([Readers("paper"), Readers("fast"), Readers("none"), Readers("same", 3.0)]),
    length_scale=st.floats(0.1, 2),
    max_tokens=st.sampled_from([None, 60]),
    cancelled=st.floats(0, 1),
)


@settings(max_examples=100, deadline=None)
@given(WORKLOADS, st.integers(0, 2**32 - 1))
def test_arrivals_are_in_order_within_bounds_and_decided_by_the_seed(workload, seed):
    arrivals = make_arrivals(ROWS, workload, seed)
    times = [each.arrived_s for each in arrivals]
    assert times == sorted(times) and all(0 <= time < workload.duration_s for time in times)
    for each in arrivals:
        assert workload.max_tokens is None or each.prompt_tokens + each.output_tokens <= workload.max_tokens
        assert (each.qoe is None) == (each.tier is Tier.BATCH or workload.readers.kind == "none")
        assert each.cancel_after_s is None or each.qoe is not None
    assert make_arrivals(ROWS, workload, seed) == arrivals
