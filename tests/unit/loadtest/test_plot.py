"""The curves of a run's picture; the picture itself where matplotlib is there."""

from __future__ import annotations

import sys

import pytest

from andes_jax.loadtest.plot import PlotError, check_plots, plot_run, throughput, under_way
from andes_jax.loadtest.record import Run
from tests.unit.loadtest.test_record import mk_record

RUN = Run([mk_record(0, 0.5, 1.5), mk_record(1, 0.25), mk_record(2, finish="failed")], 2.5)


def test_requests_under_way():
    times, counts = under_way(RUN)
    assert times.tolist() == [0.0, 1.0, 1.25, 1.5, 2.0, 2.0] and counts.tolist() == [1, 2, 1, 0, 1, 0]


def test_tokens_per_second_by_when_they_came():
    rates, edges = throughput(RUN)
    assert edges.tolist() == [0, 1, 2, 3] and rates.tolist() == [1, 2, 0]
    assert throughput(Run([], 0.5))[0].tolist() == [0]


def test_without_matplotlib_the_user_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotError, match="plots"):
        check_plots()


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    plot_run(RUN, tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
