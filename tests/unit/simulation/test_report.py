"""andes_jax.simulation.report and chart"""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from andes_jax.request import Tier
from andes_jax.simulation.contender import parse_contender
from andes_jax.simulation.experiment import simulate
from andes_jax.simulation.profiles import load_profile
from andes_jax.simulation.report import COLUMNS, points, sustained, tiers_of, write_csv
from andes_jax.simulation.sweep import Cell, Result
from tests.simulations import READER, arrive

FIGURES = simulate(
    [arrive(0.0, tier=Tier.REALTIME, qoe=READER), arrive(0.5, tier=Tier.BATCH)], load_profile("h200", 20_000), "fcfs"
).figures


def result(policy: str, rate: float, seed: int, qoe: float | None) -> Result:
    summary = {name: replace(each, qoe_mean=qoe) for name, each in FIGURES.summary.items()}
    return Result(Cell(rate, parse_contender(policy), seed), replace(FIGURES, contender=policy, summary=summary))


RESULTS = [
    result("three_tier", 2.0, 0, 0.98), result("three_tier", 1.0, 0, 1.0), result("fcfs", 1.0, 0, 0.95),
    result("fcfs", 1.0, 1, 0.97), result("fcfs", 2.0, 0, 0.80), result("fcfs", 2.0, 1, 0.88),
]  # fmt: skip


def test_points_are_means_over_seeds_by_rate_and_then_contender():
    found = points(RESULTS)
    assert [(point.rate, point.contender, len(point.results)) for point in found] == [
        (1.0, "three_tier", 1), (1.0, "fcfs", 2), (2.0, "three_tier", 1), (2.0, "fcfs", 2),
    ]  # fmt: skip
    assert found[1].mean("qoe_mean") == pytest.approx(0.96)
    assert found[1].values("qoe_mean", "realtime").tolist() == [0.95, 0.97]
    assert found[1].mean("qoe_mean", "streaming") is None
    assert found[1].mean("busy") == FIGURES.busy
    assert tiers_of(found) == ["realtime", "batch"]


def test_the_sustained_rate_is_where_the_mean_crosses():
    found = points(RESULTS)
    assert sustained(found, "fcfs") == (pytest.approx(1 + (0.96 - 0.9) / (0.96 - 0.84)), True)
    assert sustained(found, "three_tier") == (2.0, False)
    assert sustained(found, "fcfs", 0.99) == (None, True)
    assert sustained(points([result("fcfs", 1.0, 0, None)]), "fcfs") == (None, False)


def test_csv_has_a_row_for_each_run_and_tier(tmp_path):
    write_csv(tmp_path / "t.csv", RESULTS)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS and len(rows) == len(RESULTS) * 3
    assert [row["tier"] for row in rows[:3]] == ["all", "realtime", "batch"]
    assert float(rows[0]["qoe_mean"]) == 0.98 and rows[0]["policy"] == "three_tier"
    assert float(rows[2]["steps"]) == FIGURES.steps


def test_a_missing_figure_is_an_empty_cell(tmp_path):
    write_csv(tmp_path / "t.csv", [result("fcfs", 1.0, 0, None)])
    (row, *_) = csv.DictReader((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines())
    assert row["qoe_mean"] == ""
