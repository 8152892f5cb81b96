"""andes_jax.simulation.sweep"""

from __future__ import annotations

import pytest

from andes_jax.failure import UserError
from andes_jax.simulation.contender import parse_contenders
from andes_jax.simulation.profiles import load_profile
from andes_jax.simulation.sweep import Study, cells, runs, sweep
from andes_jax.workload.arrivals import Workload
from andes_jax.workload.traces import TraceRow

ROWS = [TraceRow(index * 0.2, 50 + index % 40, 10 + index % 30, None) for index in range(40)]
STUDY = Study(ROWS, Workload(), load_profile("h200:llama-3-8b", 20_000))


def numbers(results):
    return [(result.cell, result.figures.summary, result.figures.steps) for result in results]


def test_everything_is_run_once_and_the_same_in_other_processes():
    contenders = parse_contenders("fcfs,three_tier")
    wanted = cells([1.0, 2.0], contenders, 2)
    assert len(wanted) == len(set(wanted)) == 8
    here = sweep(STUDY, [1.0, 2.0], contenders, 2, processes=1)
    assert [result.cell for result in here] == wanted
    assert numbers(sweep(STUDY, [1.0, 2.0], contenders, 2, processes=2)) == numbers(here)
    slow, fast = here[0].figures, here[4].figures
    assert fast.offered_per_s == pytest.approx(2 * slow.offered_per_s)


def test_a_failure_in_another_process_is_told():
    nothing = Study([TraceRow(0.0, 1, 1, None)], Workload(start_s=5.0), STUDY.profile)
    with pytest.raises(UserError, match="window"), runs(nothing, 2) as run_all:
        list(run_all(cells([1.0], parse_contenders("fcfs"), 2)))
