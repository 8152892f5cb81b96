"""Workloads from traces: windows, rates, filters, readers, and that a seed decides everything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from andes_jax.failure import UsageError
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrivals import Workload, make_arrivals
from andes_jax.workload.process import Process
from andes_jax.workload.readers import Readers, parse_tiers
from andes_jax.workload.traces import TraceRow

RECORDED = [TraceRow(float(second), 10 + second, 5 + second) for second in range(100)]
LENGTHS = [TraceRow(None, 10 + index, 5 + index) for index in range(100)]
DRAWN = Workload(rate=2.0, process=Process(), duration_s=60.0)


def shape(arrivals):
    return [(each.prompt_tokens, each.output_tokens) for each in arrivals]


def test_a_window_starts_at_zero_and_is_played_at_another_rate():
    arrivals = make_arrivals(RECORDED, Workload(start_s=10, end_s=20, rate=2.0), 1)
    assert shape(arrivals) == [(10 + second, 5 + second) for second in range(10, 20)]
    assert [each.arrived_s for each in arrivals] == pytest.approx([index / 2 for index in range(10)])


def test_the_duration_cuts_what_comes_out():
    assert len(make_arrivals(RECORDED, Workload(rate=2.0, duration_s=10.0), 1)) == 20


def test_a_seed_decides_everything():
    workload = replace(DRAWN, tiers=parse_tiers("realtime=1,batch=1"), readers=Readers("fast"), cancelled=0.5)
    assert make_arrivals(LENGTHS, workload, 7) == make_arrivals(LENGTHS, workload, 7)
    assert make_arrivals(LENGTHS, workload, 7) != make_arrivals(LENGTHS, workload, 8)


def test_another_rate_brings_the_same_requests_with_the_same_readers():
    workload = replace(DRAWN, tiers=parse_tiers("realtime=1,batch=1"), readers=Readers("fast"), cancelled=0.5)
    slow, fast = (make_arrivals(LENGTHS, replace(workload, rate=rate), 7) for rate in (2.0, 3.0))
    assert 60 < len(slow) < len(fast)
    for first, second in zip(slow, fast, strict=False):
        assert replace(first, arrived_s=0) == replace(second, arrived_s=0)
        assert second.arrived_s == pytest.approx(first.arrived_s * 2 / 3)


def test_other_readers_do_not_move_arrivals():
    first, second = (make_arrivals(LENGTHS, replace(DRAWN, readers=Readers(kind)), 7) for kind in ("paper", "none"))
    assert [replace(each, qoe=None) for each in first] == second


def test_recorded_arrivals_can_be_drawn_anew():
    arrivals = make_arrivals(RECORDED, replace(DRAWN, start_s=50.0), 1)
    assert all(each.prompt_tokens >= 60 for each in arrivals)
    assert len(arrivals) == pytest.approx(120, rel=0.3)


def test_lengths_are_scaled_and_filtered():
    assert shape(make_arrivals(RECORDED, Workload(max_tokens=21, min_output_tokens=6), 1)) == [
        (11, 6),
        (12, 7),
        (13, 8),
    ]
    halved = make_arrivals([TraceRow(0.0, 1, 1), TraceRow(0.0, 10, 30)], Workload(length_scale=0.5), 1)
    assert shape(halved) == [(1, 1), (5, 15)]


def test_tiers_by_share_and_nobody_reads_along_with_batch():
    workload = replace(DRAWN, rate=50.0, tiers=parse_tiers("realtime=0.7,streaming=0.2,batch=0.1"))
    arrivals = make_arrivals(LENGTHS, workload, 3)
    for tier, share in ((Tier.REALTIME, 0.7), (Tier.STREAMING, 0.2), (Tier.BATCH, 0.1)):
        assert sum(each.tier is tier for each in arrivals) / len(arrivals) == pytest.approx(share, abs=0.03)
    assert all((each.qoe is None) == (each.tier is Tier.BATCH) for each in arrivals)


def test_recorded_tiers_are_kept():
    rows = [TraceRow(0.0, 5, 5, Tier.STREAMING), TraceRow(1.0, 5, 5)]
    assert [each.tier for each in make_arrivals(rows, Workload(), 1)] == [Tier.STREAMING, Tier.REALTIME]


def test_readers_expect_what_was_asked_for():
    arrivals = make_arrivals(RECORDED, Workload(readers=Readers("same", 8.0, 0.5)), 1)
    assert {each.qoe for each in arrivals} == {QoeTarget(0.5, 8.0)}


def test_a_share_of_readers_leaves_while_they_read():
    arrivals = make_arrivals(LENGTHS, replace(DRAWN, rate=20.0, readers=Readers("same", 5.0), cancelled=0.25), 1)
    leaving = [each for each in arrivals if each.cancel_after_s is not None]
    assert len(leaving) / len(arrivals) == pytest.approx(0.25, abs=0.05)
    assert all(0 <= each.cancel_after_s <= 1.0 + each.output_tokens / 5.0 for each in leaving)


@pytest.mark.parametrize(
    ("rows", "workload", "message"),
    [
        (LENGTHS, Workload(), "lengths without arrivals"),
        (LENGTHS, Workload(process=Process()), "need a duration"),
        (RECORDED, Workload(start_s=200.0), "no request of the trace"),
        (RECORDED, Workload(max_tokens=3), "no request of the trace"),
    ],
)
def test_workloads_that_cannot_be_made(rows, workload, message):
    with pytest.raises(UsageError, match=message):
        make_arrivals(rows, workload, 1)


@pytest.mark.parametrize(
    "values",
    [
        {"rate": 0.0}, {"rate": float("nan")}, {"start_s": -1.0}, {"duration_s": 0.0},
        {"length_scale": 0.0}, {"max_tokens": 1}, {"cancelled": 1.1},
    ],
)  # fmt: skip
def test_values_out_of_bounds_are_named(values):
    with pytest.raises(UsageError, match=next(reversed(values))):
        Workload(**values)


@pytest.mark.parametrize("end_s", [5.0, 4.0, float("nan")])
def test_a_window_without_length_is_told_with_both_its_ends(end_s):
    with pytest.raises(UsageError, match=f"ends at {end_s:g} s and starts at 5 s"):
        Workload(start_s=5.0, end_s=end_s)
