"""Tables, JSON and notes of runs."""

from __future__ import annotations

from dataclasses import fields, replace

import orjson
import pytest
from rich.table import Table

from andes_jax.loadtest.record import Run
from andes_jax.loadtest.report import as_json, comparison_table, notes, server_means, summaries, summary_table
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.outcome import Summary
from tests.unit.loadtest.test_record import mk_record

READER = QoeTarget(1.0, 5.0)


def cells(table: Table) -> list[list[str]]:
    """The table, row by row."""
    return [list(row) for row in zip(*(column.cells for column in table.columns), strict=True)]


def rows(table: Table) -> dict[str, list[str]]:
    """Cells by what their row begins with."""
    return {row[0]: row[1:] for row in cells(table)}


def mk_run(*, speed: float = 1.0) -> Run:
    records = [
        mk_record(0, 0.2 / speed, 0.4 / speed, 0.6 / speed, qoe=READER),
        mk_record(1, 0.2, 0.4, 0.6, tier=Tier.BATCH),
        replace(mk_record(2, finish="failed", qoe=READER), error="HTTP 500: x"),
    ]
    return Run(records, 2.0, cpu_s=0.1)


def test_a_table_has_a_column_for_each_tier():
    shown = rows(summary_table(summaries(mk_run())))
    assert shown["requests"] == ["3", "2", "1"]
    assert shown["QoE mean"] == ["0.500", "0.500", "–"]
    assert shown["TTFT P50, ms"] == ["200.0", "200.0", "200.0"]
    assert shown["failed"] == ["1", "1", "0"]
    assert "QoE mean" not in rows(summary_table(summaries(Run([mk_record(0, 0.1)], 1.0))))


def test_two_runs_side_by_side():
    found = cells(comparison_table(mk_run(), mk_run(speed=2.0)))
    assert ["realtime", "TTFT P50, ms", "200.0", "100.0", "0.500"] in found
    assert ["realtime", "failed", "1", "1", "1.000"] in found and ["batch", "failed", "0", "0", "–"] in found
    only = cells(comparison_table(mk_run(), Run([mk_record(0, 0.1, tier=Tier.STREAMING)], 1.0)))
    assert ["batch", "only in the first run", "", "", ""] in only
    assert ["streaming", "only in the second run", "", "", ""] in only


def test_json_has_every_figure():
    found = orjson.loads(orjson.dumps(as_json(mk_run())))
    assert set(found["tiers"]["all"]) == {field.name for field in fields(Summary)}
    assert found["tiers"]["batch"]["qoe_mean"] is None
    assert found["errors"] == {"HTTP 500: x": 1} and found["short"] == 0
    assert found["client"]["cpu_share"] == pytest.approx(0.05) and found["client"]["late"] is False


def test_notes_say_what_the_figures_do_not():
    words = "\n".join(notes(mk_run()))
    assert "1 times: HTTP 500: x" in words and "5% of one core" in words and "qoe 0.5" in words
    assert "WARNING" not in words and "fewer tokens" not in words and "compared" not in words
    bad = [replace(mk_record(0, 0.1), prompt_tokens=5, error=str(number)) for number in range(7)]
    words = "\n".join(notes(Run(bad, 1.0, unsent=4, lag_p99_s=0.2)))
    for part in ("WARNING", "7 replies ended with fewer", "+25.0%", "4 requests were not sent", "and 2 other errors"):
        assert part in words


def test_means_of_what_the_server_says():
    records = [replace(mk_record(0, 0.1), server=told) for told in ({"qoe": 0.5}, {"qoe": 1.0, "waited_ms": 4.0}, {})]
    assert server_means(Run(records, 1.0)) == {"qoe": 0.75, "waited_ms": 4.0}
