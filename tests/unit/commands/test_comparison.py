"""andes_jax.commands.comparison: what people are shown of it."""

from __future__ import annotations

import builtins

import pytest

from andes_jax.commands.comparison import compare
from andes_jax.commands.study import make_study
from andes_jax.simulation.contender import parse_contenders


@pytest.fixture
def shown(trace, tmp_path, capsys):
    """What a comparison prints; its files are in tmp_path."""

    def run(policies: str, rates: list[float], **options) -> str:
        study = make_study(trace, profile="a10g", **options)
        compare(study, parse_contenders(policies), rates, 1, 1, tmp_path)
        return capsys.readouterr().out

    return run


def test_overload_shows_where_the_limit_is(shown):
    output = shown("sjf_oracle,fcfs", [1.0, 400.0], kv_tokens=2048)
    lines = output.splitlines()
    assert lines[1].split()[:2] == ["1", "sjf_oracle"] and lines[2].split()[0] == "fcfs"
    assert "mean QoE of fcfs stays at 0.9 or above up to rate" in output
    assert "times fcfs's" in next(line for line in lines if line.startswith("mean QoE of sjf_oracle"))
    assert "refused" not in output and "2 runs" not in output and "4 runs of a10g:llama-3-8b" in output


def test_refusals_are_shown_where_there_are_any(shown):
    output = shown("fcfs", [1.0], max_model_len=200)
    assert output.splitlines()[0].split()[-1] == "refused"
    assert int(output.splitlines()[1].split()[-1]) == sum(120 + 8 * index > 200 for index in range(40))
    assert "is below 0.9 already at the lowest rate" in output


def test_several_tiers_have_a_table_of_their_own(shown):
    output = shown("fcfs", [1.0], tiers="realtime=0.5,batch=0.5")
    heading = output.splitlines()[3]
    assert heading.split()[:4] == ["rate", "policy", "realtime", "QoE"]
    assert "batch TTFT P99" in heading and "batch QoE" not in heading


def test_without_matplotlib_there_is_still_the_rest(shown, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kw):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kw)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'andes-jax[plots]'" in shown("fcfs", [1.0])
    assert (tmp_path / "table.csv").exists() and not (tmp_path / "chart.png").exists()


def test_nobody_reading_along_leaves_the_quality_out(shown):
    output = shown("fcfs", [1.0], readers="none")
    assert "QoE" not in output and "TTFT" in output
