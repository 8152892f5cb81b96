"""Runs on disk."""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.loadtest.record import LATE_S, Record, RecordError, Run, read_run, write_run
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import Outcome, summarise


def mk_record(index: int, *times: float, finish: str = "length", late_s: float = 0.0, **arrival) -> Record:
    outcome = Outcome(Arrival(float(index), 4, 3, **arrival), np.array(times), finish, 0.25, 2)
    return Record(index, outcome, late_s, prompt_tokens=4, output_tokens=len(times), server={"qoe": 0.5})


def test_a_run_is_read_back_as_it_was_written(tmp_path):
    records = [
        mk_record(0, 0.1, 0.25, 0.5, tier=Tier.STREAMING, qoe=QoeTarget(1.0, 5.0), cancel_after_s=3.0),
        mk_record(1, tier=Tier.BATCH, finish="failed"),
    ]
    run = Run(records, 4.0, unsent=3, lag_p99_s=0.01, cpu_s=0.5, about={"url": "http://x"})
    write_run(tmp_path / "run.jsonl", run)
    back = read_run(tmp_path / "run.jsonl")
    assert summarise(back.outcomes, back.duration_s) == summarise(run.outcomes, run.duration_s)
    assert [record.outcome.arrival for record in back.records] == [record.outcome.arrival for record in records]
    assert back.records[0].outcome.token_times_s.tolist() == [0.1, 0.25, 0.5]
    assert (back.unsent, back.lag_p99_s, back.cpu_s, back.about) == (3, 0.01, 0.5, {"url": "http://x"})
    assert back.records[0].server == {"qoe": 0.5} and back.records[1].error is None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"", "line 1"),
        (b"{}\n", "line 1"),
        (b"[]\n", "line 1"),
        (b'{"run":{"duration_s":1,"unsent":0,"lag_p99_s":0,"cpu_s":0,"about":{}}}\n{"index":0}\n', "line 2"),
    ],
)
def test_other_files_are_named(tmp_path, text, where):
    path = tmp_path / "other.jsonl"
    path.write_bytes(text)
    with pytest.raises(RecordError, match=f"other.jsonl, {where}"):
        read_run(path)


def test_short_replies_and_late_clients():
    assert mk_record(0, 0.1).short and not mk_record(0, 0.1, 0.2, 0.3).short
    assert not mk_record(0, 0.1, finish="failed").short
    punctual = [mk_record(index, 0.1, late_s=0.001) for index in range(99)]
    assert not Run(punctual, 1.0).late
    assert Run([*punctual, mk_record(99, 0.1, late_s=10.0)], 1.0).late_p99_s > 0.001
    assert Run([mk_record(0, 0.1, late_s=2 * LATE_S)], 1.0).late
    assert Run(punctual, 1.0, lag_p99_s=2 * LATE_S).late
    assert not Run([], 1.0).late
