"""Profiles by name and from files."""

from __future__ import annotations

import pytest

from andes_jax.failure import UsageError
from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.fitted import Costs, ProfileFile, ProfileFileError, ProgramCost
from andes_jax.simulation.hardware import CHIPS, MODELS
from andes_jax.simulation.profiles import load_profile
from andes_jax.simulation.roofline import kv_capacity


def test_every_name_leads_to_a_profile_that_can_schedule():
    names = [f"{chip}:{model}" for chip in CHIPS for model in MODELS if kv_capacity(CHIPS[chip], MODELS[model]) > 0]
    assert {"a10g:llama-3-8b", "a100-40gb:llama-2-13b", "a100-80gb:opt-13b", "h100:qwen3-8b", "h200:llama-3-8b"} <= {
        *names
    }
    for name in names:
        profile = load_profile(name)
        assert profile.name == name
        assert profile.step_tokens >= profile.max_sequences and profile.step_tokens >= profile.prefill_chunk
        assert profile.pages > profile.kv_tokens / profile.page_tokens - 1
        assert 0 < profile.times.seconds(StepWork(profile.max_sequences, profile.max_sequences * 100)) < 1
        assert profile.times.seconds(StepWork(copied_pages=1)) == pytest.approx(profile.copy_page_s)


def test_a_chip_alone_runs_the_usual_model():
    assert load_profile("H200").name == "h200:llama-3-8b"


def test_the_cache_can_be_made_short():
    ample, short = load_profile("h200:llama-3-8b"), load_profile("h200:llama-3-8b", kv_tokens=60_000)
    assert ample.kv_tokens > 800_000 and (short.kv_tokens, short.pages) == (60_000, 3750)
    assert short.times.seconds(StepWork(9, 900)) == ample.times.seconds(StepWork(9, 900))


@pytest.mark.parametrize("name", ["", "h300", "h200:gpt-5", "a10g:llama-2-13b", "nothing:here"])
def test_what_there_is_none_of(name):
    with pytest.raises(UsageError):
        load_profile(name)
    with pytest.raises(UsageError, match="no page"):
        load_profile("h200", kv_tokens=15)


def test_a_measured_profile_from_a_file(tmp_path):
    costs = Costs(
        decode=(ProgramCost(size=8, base_s=0.02, slope_s=1e-6),),
        prefill=(ProgramCost(size=64, base_s=0.03, slope_s=1e-8),),
        copy_page_s=0.001,
        step_s=0.001,
        sequence_s=0.0,
    )
    file = ProfileFile(
        name="tiny on cpu", model="tiny", device="cpu", kv_tokens=4096, page_tokens=64, max_sequences=8,
        max_model_len=512, step_tokens=72, prefill_chunk=64, host_s=0.0004, costs=costs, error=None,
    )  # fmt: skip
    for name in ("mine.json", "mine"):
        file.write(tmp_path / name)
        profile = load_profile(tmp_path / name)
        assert (profile.name, profile.pages, profile.host_s, profile.max_model_len) == ("tiny on cpu", 64, 0.0004, 512)
        assert profile.times.seconds(StepWork(8, 1000)) == pytest.approx(0.022)
    assert load_profile(str(tmp_path / "mine.json"), kv_tokens=640).pages == 10
    with pytest.raises(ProfileFileError):
        load_profile(tmp_path / "none.json")
