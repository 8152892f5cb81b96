"""Does the runs of the scheduling study over several processes, and keeps each as a line of JSON as it ends."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import andes_jax
from andes_jax.simulation.contender import parse_contender
from andes_jax.simulation.experiment import Figures, simulate
from andes_jax.simulation.loop import SimulationStuck
from andes_jax.workload.outcome import Outcome, Summary
from tests.bench.scheduling_cells import CELLS, Cell, Entry, Job, Surroundings, arrivals_of, capacity, machine

SIMULATED = ("clock.py", "request.py", "memory", "prediction", "scheduling", "workload", "simulation")


@dataclass(frozen=True, slots=True)
class Record:
    """A run with its figures. `extra`: by tier and "all", figures of the arrival window, without the drain after it."""

    job: Job
    figures: Figures
    extra: dict[str, dict[str, float]]
    source: str  # a digest of the code that was run


class Store:
    """The lines of one cell; later ones replace earlier ones of the same run."""

    def __init__(self, folder: Path, cell: str) -> None:
        self.path = folder / f"scheduling-{cell}.jsonl"

    def read(self) -> tuple[dict[Job, Record], dict[str, float]]:
        """Runs, and capacities in requests per second. A last line that was cut short is left out."""
        records: dict[Job, Record] = {}
        capacities: dict[str, float] = {}
        lines = self.path.read_text(encoding="utf-8").split("\n") if self.path.exists() else []
        for index, line in enumerate(filter(None, lines)):
            try:
                value = json.loads(line)
            except json.JSONDecodeError:
                if index == len(lines) - 1:
                    break
                raise
            if "capacity" in value:
                capacities[value["capacity"]] = value["per_s"]
            else:
                record = _record(value)
                records[record.job] = record
        return records, capacities

    def add(self, record: Record) -> None:
        """One more run."""
        self._write(dataclasses.asdict(record) | {"job": record.job._asdict()})

    def add_capacity(self, name: str, per_s: float) -> None:
        """What rates are multiples of."""
        self._write({"capacity": name, "per_s": per_s})

    def _write(self, value: dict[str, Any]) -> None:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        if text and not text.endswith("\n"):  # of a run that was ended while it wrote
            self.path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")


def capacities_of(cell: Cell, around: Surroundings, store: Store) -> dict[str, float]:
    """The capacities that a cell's rates need, from its file or found now."""
    known = store.read()[1]
    for name in ("requests", "batch"):
        needed = cell.of_capacity if name == "requests" else cell.with_batch
        if needed and name not in known:
            known[name] = capacity(cell, around, batch=name == "batch")
            store.add_capacity(name, known[name])
    return known


def run(job: Job, around: Surroundings, capacities: dict[str, float]) -> Record:
    """One simulation."""
    profile, options = machine(CELLS[job.cell], around)
    arrivals = arrivals_of(job, around, capacities)
    options = replace(options, predict=job.entry.predict)
    found = simulate(arrivals, profile, parse_contender(job.entry.words), options, seed=job.seed)
    figures = replace(found.figures, contender=job.entry.label)
    return Record(job, figures, within_window(found.outcomes, job.window_s), SOURCE)


def run_all(
    wanted: Sequence[tuple[Job, dict[str, float]]], around: Surroundings, processes: int
) -> Iterator[tuple[Job, Record | SimulationStuck]]:
    """Every run, in the order in which they end; the first of the list are begun first. One that got stuck shows a
    defect of the scheduler, and is no reason to lose the others."""
    if processes == 1:
        for job, capacities in wanted:
            yield job, _run_or_stuck(job, around, capacities)
        return
    # Spawned, for a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        jobs = {pool.submit(_run_or_stuck, job, around, capacities): job for job, capacities in wanted}
        for future in as_completed(jobs):
            yield jobs[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _run_or_stuck(job: Job, around: Surroundings, capacities: dict[str, float]) -> Record | SimulationStuck:
    try:
        return run(job, around, capacities)
    except SimulationStuck as error:
        return error


def within_window(outcomes: Sequence[Outcome], window_s: float) -> dict[str, dict[str, float]]:
    """For "all" and each tier: what was delivered before the window's end, per second of it, waits and punctuality."""
    tiers = sorted({outcome.arrival.tier for outcome in outcomes})
    groups = {"all": list(outcomes)}
    groups |= {tier.name.lower(): [one for one in outcomes if one.arrival.tier is tier] for tier in tiers}
    return {name: _window_figures(group, window_s) for name, group in groups.items()}


def _window_figures(outcomes: Iterable[Outcome], window_s: float) -> dict[str, float]:
    tokens = prompts = requests = 0
    waits: list[float] = []
    punctual: list[bool] = []
    for outcome in outcomes:
        arrival = outcome.arrival
        delivered = int(np.searchsorted(outcome.token_times_s, window_s - arrival.arrived_s, side="right"))
        tokens += delivered
        prompts += arrival.prompt_tokens if delivered else 0
        requests += outcome.finished and delivered == len(outcome.token_times_s)
        if outcome.waited_s is not None:
            waits.append(outcome.waited_s)
        if arrival.qoe is not None:
            punctual.append(outcome.ttft_s is not None and outcome.ttft_s <= arrival.qoe.first_token_s)
    figures = {
        "tokens_per_s": tokens / window_s,
        "prompt_tokens_per_s": prompts / window_s,  # of prompts that were computed to their end
        "requests_per_s": requests / window_s,
    }
    if waits:
        figures |= {"waited_mean": float(np.mean(waits)), "waited_p50": float(np.median(waits))}
    if punctual:
        figures["punctual"] = float(np.mean(punctual))  # share whose first token came when it was expected
    return figures


def _source_digest() -> str:
    """Of all code that a simulation's result depends on, so that results of different states are not mistaken."""
    root = Path(andes_jax.__file__).parent
    digest = hashlib.sha256()
    for name in SIMULATED:
        for path in sorted((root / name).rglob("*.py")) or [root / name]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _record(value: dict[str, Any]) -> Record:
    job, figures = value["job"], value["figures"]
    summary = {tier: Summary(**fields) for tier, fields in figures.pop("summary").items()}
    return Record(
        Job(**job | {"entry": Entry(*job["entry"])}),
        Figures(**figures, summary=summary),
        value["extra"],
        value["source"],
    )


SOURCE = _source_digest()  # as it was when this process began
