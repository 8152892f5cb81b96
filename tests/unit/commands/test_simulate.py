"""andes-jax simulate, from the command line to its files."""

from __future__ import annotations

import csv

import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.commands.simulate import MOST_RATES, parse_rates
from andes_jax.failure import UsageError


def simulate(*arguments):
    result = CliRunner().invoke(app, ["simulate", "--processes", "1", *map(str, arguments)], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_it_writes_a_table_a_csv_and_a_picture(trace, tmp_path):
    out = tmp_path / "new" / "folder"
    result = simulate(
        "--trace", trace, "--policy", "fcfs,three_tier:beta=0", "--rate", "1:2:1", "--seeds", 2, "--output", out,
        "--tiers", "realtime=0.5,batch=0.5",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].split()[:3] == ["rate", "policy", "QoE"] and "refused" not in lines[0]
    assert [line.split()[-11:-9] for line in lines[1:5]][0][0] in ("fcfs", "1")
    assert sum("three_tier:beta=0" in line for line in lines) >= 4
    assert any(line.split() and "realtime" in line and "batch" in line for line in lines)
    assert "mean QoE of fcfs stays at 0.9 or above at every rate" in result.output
    assert "8 runs of h200:llama-3-8b" in result.output
    with (out / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 * 3
    assert (out / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert str(out / "chart.png") in result.output.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "rates"),
    [
        ("1", [1.0]),
        ("2,0.5", [0.5, 2.0]),
        ("0.2:0.5", [0.2, 0.3, 0.4, 0.5]),
        ("0.5:3:0.5", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]),
        ("1:2:0.4", [1.0, 1.4, 1.8]),
        ("2:2", [2.0]),
    ],
)
def test_rates(words, rates):
    assert parse_rates(words) == rates


@pytest.mark.parametrize("words", ["", "x", "2:1", "1:2:0", "0:1", "-1", "1:2:3:4", "1,,2", "inf", "nan", "1:inf"])
def test_rates_that_make_no_sense(words):
    with pytest.raises(UsageError, match="rates"):
        parse_rates(words)


def test_too_many_rates():
    with pytest.raises(UsageError, match=f"more than {MOST_RATES}"):
        parse_rates("1:1000000:0.001")


def test_errors_are_for_people(trace, tmp_path):
    with pytest.raises(UsageError, match="no policy 'lifo'"):
        simulate("--trace", trace, "--policy", "lifo", "--output", tmp_path)
