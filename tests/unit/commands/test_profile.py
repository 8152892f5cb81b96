"""andes-jax profile over a runner that computes nothing: what is measured, written and shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import andes_jax.build
from andes_jax.cli import app
from andes_jax.clock import VirtualClock, WallClock
from andes_jax.commands.failure import CommandError
from andes_jax.commands.profile import ENGINE_STEPS, measure_engine
from andes_jax.engine import Engine
from andes_jax.memory.pool import PagePool
from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.policies import create_policy
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.simulation.hardware import CHIPS, MODELS
from andes_jax.simulation.profiles import load_profile
from andes_jax.simulation.roofline import RooflineTimes
from andes_jax.simulation.runner import SimulatedRunner
from tests.fakes import letters

LIMITS = SchedulerLimits(max_sequences=4, max_model_len=256, step_tokens=36, prefill_chunk=32, page_tokens=16)
PAGES = 65


def fake_runner() -> SimulatedRunner:
    return SimulatedRunner(VirtualClock(), RooflineTimes(CHIPS["h200"], MODELS["smollm2-135m"], 16))


def fake_engine(pages: int = PAGES) -> Engine:
    scheduler = Scheduler(create_policy("fcfs", max_model_len=256), PagePool(pages, None), None, LIMITS)
    engine = Engine(scheduler, fake_runner(), letters(), WallClock(), max_waiting=8)
    engine.start()
    return engine


def fake_load(config, progress):
    sizes = SimpleNamespace(ladder=Ladder((1, 2, 4), (16, 32)), pages=PAGES, page_tokens=16, host_pages=8)
    device = SimpleNamespace(kind="nothing")
    fit = SimpleNamespace(limits=LIMITS, sizes=sizes, device=device, pool_tokens=(PAGES - 1) * 16)
    return SimpleNamespace(runner=fake_runner(), fit=fit)


@pytest.fixture
def profile(monkeypatch):
    monkeypatch.setattr(andes_jax.build, "load", fake_load)
    monkeypatch.setattr(andes_jax.build, "start", lambda config, loaded: SimpleNamespace(engine=fake_engine()))
    return lambda *arguments: CliRunner().invoke(app, ["profile", *map(str, arguments)])


def test_a_profile_is_measured_shown_and_written(profile, tmp_path):
    path = tmp_path / "mine.json"
    result = profile("--output", path)
    assert result.exit_code == 0, result.output
    for words in ("replies", "prompt tokens", "mixed steps", "added by the engine", "written to"):
        assert words in result.output
    written = load_profile(path)
    assert written.name == "SmolLM2-135M-Instruct on nothing"
    assert (written.kv_tokens, written.max_sequences, written.prefill_chunk) == (1024, 4, 32)
    assert written.host_s > 0


def test_what_could_not_be_written_or_measured_is_not_begun(profile, tmp_path):
    for arguments in (("--output", tmp_path / "none" / "mine.json"), ("--output", "x", "--prefill-chunk", 1), ()):
        result = profile(*arguments)
        assert result.exit_code != 0
        assert not (tmp_path / "none").exists()


def test_steps_of_an_engine_are_those_in_which_all_get_a_token():
    engine = fake_engine()
    try:
        told: list[str] = []
        found, host_s = measure_engine(engine, (1, 4), told.append)
    finally:
        engine.stop(timeout_s=5)
    assert [step.work.decodes for step in found] == [1, 4] and len(told) == 2
    assert all(0 < step.seconds < 1 for step in found) and host_s > 0
    assert engine.statistics().generated_tokens >= 5 * ENGINE_STEPS


def test_replies_that_do_not_fit_together_are_no_batch():
    engine = fake_engine(pages=8)
    try:
        with pytest.raises(CommandError, match="never ran together"):
            measure_engine(engine, (4,), lambda words: None)
    finally:
        engine.stop(timeout_s=5)
