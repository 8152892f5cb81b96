"""What was measured of each request, as values and as JSON lines: first a line about the run, then one per request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from andes_jax.failure import UserError
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import Outcome

LATE_S = 0.05
"""A client that is later than this at its 99th percentile has not measured the server alone."""


class RecordError(UserError):
    """A file that is no record of a run."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request that was sent. Times count from when it was due, so that a late client hides nothing."""

    index: int  # in the workload
    outcome: Outcome
    late_s: float = 0.0  # from when it was due to when the client began with it
    prompt_tokens: int | None = None  # as the server counts; None: it did not say
    output_tokens: int | None = None
    error: str | None = None  # with failed and refused
    server: dict[str, float] = field(default_factory=dict)  # numbers of usage.andes

    @property
    def short(self) -> bool:
        """Whether a reply that ended by itself has fewer tokens than asked for."""
        return self.outcome.finished and len(self.outcome.token_times_s) < self.outcome.arrival.output_tokens


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run."""

    records: Sequence[Record]
    duration_s: float  # from the workload's beginning to the end of the last request
    unsent: int = 0  # requests that were not due yet when the run was cut short
    lag_p99_s: float = 0.0  # how late the client's event loop was, by its own timer
    cpu_s: float = 0.0  # CPU time of the client
    about: dict[str, Any] = field(default_factory=dict)  # what was run, for the file

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of each request."""
        return [record.outcome for record in self.records]

    @property
    def late_p99_s(self) -> float:
        """How late the client was: with sending, or with reading."""
        late = [record.late_s for record in self.records]
        return max(float(np.percentile(late, 99)) if late else 0.0, self.lag_p99_s)

    @property
    def late(self) -> bool:
        """Whether the client was too late for the figures to be the server's alone."""
        return self.late_p99_s > LATE_S


def write_run(path: Path, run: Run) -> None:
    """Write a run as JSON lines. Raises OSError."""
    head = {
        "duration_s": run.duration_s,
        "unsent": run.unsent,
        "lag_p99_s": run.lag_p99_s,
        "cpu_s": run.cpu_s,
        "about": run.about,
    }
    with path.open("wb") as file:
        file.write(orjson.dumps({"run": head}, option=orjson.OPT_APPEND_NEWLINE))
        for record in run.records:
            file.write(orjson.dumps(_line(record), option=orjson.OPT_APPEND_NEWLINE))


def _line(record: Record) -> dict[str, Any]:
    outcome = record.outcome
    arrival = outcome.arrival
    return {
        "index": record.index,
        "arrived_s": arrival.arrived_s,
        "tier": arrival.tier.name.lower(),
        "prompt_tokens": arrival.prompt_tokens,
        "output_tokens": arrival.output_tokens,
        "expected_ttft_s": arrival.qoe and arrival.qoe.first_token_s,
        "expected_tokens_per_s": arrival.qoe and arrival.qoe.tokens_per_s,
        "cancel_after_s": arrival.cancel_after_s,
        "finish": outcome.finish,
        "error": record.error,
        "late_s": record.late_s,
        "counted_prompt_tokens": record.prompt_tokens,
        "counted_output_tokens": record.output_tokens,
        "ttft_s": outcome.ttft_s,
        "latency_s": outcome.latency_s,
        "waited_s": outcome.waited_s,
        "preemptions": outcome.preemptions,
        "qoe": outcome.qoe,
        "server": record.server,
        "token_times_s": [round(time_s, 6) for time_s in outcome.token_times_s.tolist()],
    }


def read_run(path: Path) -> Run:
    """Read a run back. Raises RecordError for a file that holds none, OSError for one that cannot be read."""
    first, *rest = path.read_bytes().splitlines() or [b""]
    run = _parsed(path, 1, first, lambda line: _run(line["run"]))
    records = [_parsed(path, number, line, _record) for number, line in enumerate(rest, start=2)]
    return replace(run, records=records)


def _parsed[T](path: Path, number: int, line: bytes, parse: Callable[[dict[str, Any]], T]) -> T:
    try:
        return parse(orjson.loads(line))
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}, line {number}: not as `bench --output` writes it ({error!r})") from error


def _run(head: dict[str, Any]) -> Run:
    return Run([], head["duration_s"], head["unsent"], head["lag_p99_s"], head["cpu_s"], head["about"])


def _record(line: dict[str, Any]) -> Record:
    speed = line["expected_tokens_per_s"]
    arrival = Arrival(
        arrived_s=line["arrived_s"],
        prompt_tokens=line["prompt_tokens"],
        output_tokens=line["output_tokens"],
        tier=Tier[line["tier"].upper()],
        qoe=None if speed is None else QoeTarget(line["expected_ttft_s"], speed),
        cancel_after_s=line["cancel_after_s"],
    )
    times = np.asarray(line["token_times_s"], np.float64)
    outcome = Outcome(arrival, times, line["finish"], line["waited_s"], line["preemptions"])
    return Record(
        index=line["index"],
        outcome=outcome,
        late_s=line["late_s"],
        prompt_tokens=line["counted_prompt_tokens"],
        output_tokens=line["counted_output_tokens"],
        error=line["error"],
        server=line["server"],
    )
