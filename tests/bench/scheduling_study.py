"""What the policies do to readers: the scheduler's targets checked by simulation, with ablations and trades.

    python -m tests.bench.scheduling_study --traces FOLDER --cells a100-short,h200-short --seeds 3
    python -m tests.bench.scheduling_study --report

FOLDER holds the traces named in scheduling_cells. Every run is kept as it ends, in scheduling-CELL.jsonl, and is not
done again; --renew does those again that were made by other sources. --report writes tables and pictures of all runs
with the longest window that are there.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from andes_jax.simulation.loop import SimulationStuck
from tests.bench.scheduling_cells import CELLS, PARTS, Job, Surroundings, jobs_of
from tests.bench.scheduling_report import write_report
from tests.bench.scheduling_runs import SOURCE, Store, capacities_of, run_all

RESULTS = Path("tests/bench/results")


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Raises SystemExit for words that make no sense."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="the folder of the traces; needed unless --report")
    parser.add_argument("--cells", default=",".join(CELLS), help=f"with commas between them: {', '.join(CELLS)}")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"with commas between them: {', '.join(PARTS)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--window", type=float, default=600.0, metavar="SECONDS", help="in which requests come")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cpu-profile", type=Path, metavar="FILE", help="of andes-jax profile, for the cell cpu")
    parser.add_argument("--cpu-scale", type=float, default=0.25, help="times the trace's lengths, for the cell cpu")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--renew", action="store_true", help="do runs again that were made by other sources")
    parser.add_argument("--report", action="store_true", help="do no runs; write tables and pictures of those there")
    arguments = parser.parse_args(words)
    arguments.cells = arguments.cells.split(",")
    arguments.parts = arguments.parts.split(",")
    for given, known in ((arguments.cells, CELLS), (arguments.parts, PARTS)):
        for name in given:
            if name not in known:
                parser.error(f"no {name!r}; there are {', '.join(known)}")
    if arguments.traces is None and not arguments.report:
        parser.error("--traces FOLDER is needed")
    return arguments


def study(arguments: argparse.Namespace) -> int:
    """Do the runs that are not there yet; returns how many got stuck."""
    around = Surroundings(arguments.traces, arguments.window, arguments.cpu_profile, arguments.cpu_scale)
    arguments.output.mkdir(parents=True, exist_ok=True)
    stores, wanted = {}, []
    for name in arguments.cells:
        cell, store = CELLS[name], Store(arguments.output, name)
        stores[name] = store
        if not cell.profile and around.cpu_profile is None:
            print(f"{name}: left out, for it needs --cpu-profile FILE", file=sys.stderr)
            continue
        done = {job for job, record in store.read()[0].items() if not arguments.renew or record.source == SOURCE}
        jobs = [job for job in jobs_of(cell, arguments.parts, arguments.seeds, around.window_s) if job not in done]
        if jobs:
            capacities = capacities_of(cell, around, store)
            wanted += [(job, capacities) for job in jobs]
    began, stuck = time.monotonic(), 0
    for count, (job, found) in enumerate(run_all(wanted, around, arguments.processes), start=1):
        told = f"{time.monotonic() - began:7.0f} s {count}/{len(wanted)} {_name(job)}"
        if isinstance(found, SimulationStuck):
            stuck += 1
            print(f"{told}: {found}", file=sys.stderr, flush=True)
            continue
        stores[job.cell].add(found)
        quality = found.figures.summary["all"].qoe_mean
        words = "-" if quality is None else f"{quality:.3f}"
        print(f"{told}: QoE {words}, {found.figures.wall_s:.0f} s", flush=True)
    return stuck


def report(arguments: argparse.Namespace) -> None:
    """Write what is there of each cell."""
    for name in arguments.cells:
        records, capacities = Store(arguments.output, name).read()
        if not records:
            print(f"{name}: no runs", file=sys.stderr)
            continue
        longest_s = max(job.window_s for job in records)
        chosen = [record for job, record in records.items() if job.window_s == longest_s]
        write_report(arguments.output, CELLS[name], chosen, capacities)


def _name(job: Job) -> str:
    return " ".join(filter(None, (job.cell, job.mix, job.entry.label, f"rate {job.rate:g}", f"seed {job.seed}")))


def main() -> None:
    arguments = arguments_of()
    stuck = 0 if arguments.report else study(arguments)
    report(arguments)
    if stuck:
        raise SystemExit(f"{stuck} runs got stuck: a defect of the scheduler")


if __name__ == "__main__":
    main()
