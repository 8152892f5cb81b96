"""Many runs side by side: rates, contenders and seeds over several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from andes_jax.simulation.contender import Contender
from andes_jax.simulation.experiment import Figures, Options, simulate
from andes_jax.simulation.profiles import Profile
from andes_jax.workload.arrivals import Workload, make_arrivals
from andes_jax.workload.traces import TraceRow


@dataclass(frozen=True, slots=True)
class Study:
    """What all runs have in common."""

    rows: Sequence[TraceRow]
    workload: Workload  # its rate is each run's own
    profile: Profile
    options: Options = Options()


class Cell(NamedTuple):
    """One run of a study."""

    rate: float  # as in Workload
    contender: Contender
    seed: int


class Result(NamedTuple):
    """What came of it."""

    cell: Cell
    figures: Figures


Runs = Callable[[Iterable[Cell]], Iterator[Result]]
"""Does the runs and yields their results as they are there, in any order."""


def cells(rates: Iterable[float], contenders: Sequence[Contender], seeds: int) -> list[Cell]:
    """Every rate with every contender and seed 0 .. seeds-1."""
    return [Cell(rate, contender, seed) for rate in rates for contender in contenders for seed in range(seeds)]


def run_cell(study: Study, cell: Cell) -> Result:
    """One run. Raises what `make_arrivals` and `simulate` do."""
    arrivals = make_arrivals(study.rows, replace(study.workload, rate=cell.rate), cell.seed)
    return Result(cell, simulate(arrivals, study.profile, cell.contender, study.options, seed=cell.seed).figures)


@contextmanager
def runs(study: Study, processes: int) -> Iterator[Runs]:
    """Yield what does runs of the study, in so many processes; one is this process itself."""
    if processes == 1:
        yield lambda wanted: (run_cell(study, cell) for cell in wanted)
        return
    # Spawned, for a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(study,))

    def run_all(wanted: Iterable[Cell]) -> Iterator[Result]:
        for future in as_completed([pool.submit(_run, cell) for cell in wanted]):
            yield future.result()

    try:
        yield run_all
    finally:
        pool.shutdown(cancel_futures=True)


def sweep(
    study: Study, rates: Sequence[float], contenders: Sequence[Contender], seeds: int, processes: int = 2
) -> list[Result]:
    """All of them, in the order of `cells`."""
    wanted = cells(rates, contenders, seeds)
    with runs(study, min(processes, len(wanted))) as run_all:
        found = {result.cell: result for result in run_all(wanted)}
    return [found[cell] for cell in wanted]


_study: Study | None = None  # a worker process's own; sent once, for traces are large


def _begin(study: Study) -> None:
    global _study
    _study = study


def _run(cell: Cell) -> Result:
    assert _study is not None
    return run_cell(_study, cell)
