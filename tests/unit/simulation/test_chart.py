"""andes_jax.simulation.chart: what is drawn, not how it looks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from andes_jax.request import Tier
from andes_jax.simulation import chart
from andes_jax.simulation.contender import parse_contender
from andes_jax.simulation.experiment import simulate
from andes_jax.simulation.profiles import load_profile
from andes_jax.simulation.report import points
from andes_jax.simulation.sweep import Cell, Result
from tests.simulations import READER, arrive

pytest.importorskip("matplotlib")

PROFILE = load_profile("h200", 20_000)


def results(tiers=(Tier.REALTIME, Tier.BATCH), reader=READER, qoe=0.96):
    for rate in (1.0, 2.0):
        for policy in ("three_tier", "fcfs"):
            for seed in (0, 1):
                arrivals = [arrive(0.1 * index, 40 + seed, tier=tier, qoe=reader) for index, tier in enumerate(tiers)]
                figures = simulate(arrivals, PROFILE, policy).figures
                if reader is not None:
                    changed = {"qoe_mean": qoe / rate**4, "ttft_p99": 0.01 * 20**rate}
                    summary = {name: replace(each, **changed) for name, each in figures.summary.items()}
                    figures = replace(figures, summary=summary)
                yield Result(Cell(rate, parse_contender(policy), seed), figures)


@pytest.fixture
def draw(monkeypatch, tmp_path):
    """Draws into a file; gives the axes by title."""
    from matplotlib.figure import Figure

    figures = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **kw: (figures.append(self), save(self, *args, **kw)))

    def drawn(found):
        path = tmp_path / "chart.png"
        chart.draw(path, points(found), "a title", "rate")
        assert path.read_bytes().startswith(b"\x89PNG")
        return {axes.get_title(loc="left"): axes for axes in figures[-1].axes}

    return drawn


def test_there_is_a_line_for_each_policy_and_a_panel_for_each_tier(draw):
    axes = draw(results())
    assert list(axes) == [
        "Mean quality of experience (v2); shaded: from the lowest to the highest of 2 seeds",
        "Time to the last token, mean",
        "Time to the first token, P99: realtime",
        "Time to the first token, P99: batch",
        "Wait, P99: realtime",
        "Wait, P99: batch",
    ]
    quality = next(iter(axes.values()))
    labels = [text.get_text() for text in quality.get_legend().get_texts()]
    assert labels == ["three_tier", "fcfs"]
    assert quality.get_lines()[0].get_xydata().tolist() == [[1.0, 0.96], [2.0, 0.06]]
    assert quality.get_ylim()[0] == 0.0 and quality.get_yscale() == "linear"
    assert axes["Time to the first token, P99: batch"].get_yscale() == "log"
    assert axes["Wait, P99: batch"].get_yscale() == "linear"  # they are within a factor of ten


def test_one_tier_and_no_readers_can_be_drawn_too(draw):
    axes = draw(results((Tier.BATCH,), None))
    quality = next(iter(axes.values()))
    assert [text.get_text() for text in quality.texts] == ["nothing to show"]
    assert [title for title in axes if "batch" in title] == ["Time to the first token, P99: batch", "Wait, P99: batch"]
