"""Fitted step times: cut and padded as the runner does it, and kept in a file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from andes_jax.failure import UserError
from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.fitted import (
    Costs,
    FitError,
    FittedTimes,
    ProfileFile,
    ProfileFileError,
    ProgramCost,
    pairs_of,
    read_profile_file,
)


def cost(size: int, base_s: float, slope_s: float) -> ProgramCost:
    return ProgramCost(size=size, base_s=base_s, slope_s=slope_s)


COSTS = Costs(
    decode=(cost(1, 0.010, 1e-6), cost(4, 0.016, 2e-6)),
    prefill=(cost(16, 0.012, 1e-8), cost(64, 0.030, 2e-8)),
    copy_page_s=0.001,
    step_s=0.002,
    sequence_s=0.0005,
)
FILE = ProfileFile(
    name="tiny on cpu", model="tiny", device="cpu", kv_tokens=4096, page_tokens=64, max_sequences=4, max_model_len=512,
    step_tokens=68, prefill_chunk=64, host_s=0.0004, costs=COSTS,
    error=FitError(steps=3, median=0.01, worst=0.05, bias=-0.01),
)  # fmt: skip
TIMES = FittedTimes(COSTS)


def test_decodes_cost_their_compiled_rows():
    for decodes, base_s, slope_s in ((1, 0.010, 1e-6), (2, 0.016, 2e-6), (3, 0.016, 2e-6), (4, 0.016, 2e-6)):
        expected = base_s + 0.002 + 0.0005 * decodes + 300 * slope_s
        assert TIMES.seconds(StepWork(decodes, 300)) == pytest.approx(expected)
    with pytest.raises(IndexError):
        TIMES.seconds(StepWork(5, 300))


def test_slices_are_cut_and_padded_as_the_runner_does_it():
    """70 tokens are a program of 64 and one of 16 with 6 real tokens, which attend to the first 64."""
    expected = 0.002 + 0.030 + 2e-8 * pairs_of(64, 100) + 0.012 + 1e-8 * pairs_of(6, 164)
    assert TIMES.seconds(StepWork(prefills=((70, 100),))) == pytest.approx(expected)
    padded = 0.002 + 0.012 + 1e-8 * pairs_of(10, 0)
    assert TIMES.seconds(StepWork(prefills=((10, 0),))) == pytest.approx(padded)


def test_pairs_are_what_queries_see():
    assert pairs_of(3, 10) == sum(position + 1 for position in (10, 11, 12))


def test_parts_of_a_step_add_up():
    step = TIMES.seconds(StepWork(2, 50, ((16, 0),), copied_pages=3))
    parts = TIMES.seconds(StepWork(2, 50)) + TIMES.seconds(StepWork(prefills=((16, 0),))) + 3 * 0.001
    assert step == pytest.approx(parts - 0.002)  # the engine's share for a step comes once
    assert TIMES.seconds(StepWork(copied_pages=2)) == pytest.approx(0.002)


def test_stretches_of_decodes_take_what_single_steps_take():
    contexts = np.array([3, 300, 3000])
    for decodes in (1, 3):
        singly = [TIMES.seconds(StepWork(decodes, context)) for context in contexts.tolist()]
        assert TIMES.decode_seconds(decodes, contexts) == pytest.approx(singly, rel=1e-12)


def test_a_file_gives_back_what_was_written(tmp_path):
    FILE.write(tmp_path / "mine.json")
    assert read_profile_file(tmp_path / "mine.json") == FILE
    with pytest.raises(UserError, match="cannot write"):
        FILE.write(tmp_path / "none" / "mine.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version"),
        ({"kind": "profile"}, "kind"),
        ({"surplus": 1}, "surplus"),
        ({"host_s": -1}, "host_s"),
        ({"costs": {}}, "costs.decode"),
        ({"kv_tokens": "many"}, "kv_tokens"),
    ],
)
def test_other_files_are_refused_by_name_and_field(tmp_path, change, message):
    path = tmp_path / "other.json"
    path.write_text(json.dumps(json.loads(FILE.model_dump_json()) | change))
    with pytest.raises(ProfileFileError, match=message) as caught:
        read_profile_file(path)
    assert str(path) in str(caught.value)


def test_files_that_are_no_json_or_not_there(tmp_path):
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(ProfileFileError, match="no profile"):
        read_profile_file(tmp_path / "text.json")
    with pytest.raises(ProfileFileError, match="cannot read"):
        read_profile_file(tmp_path / "none.json")


def test_sizes_ascend():
    with pytest.raises(ValidationError, match="do not ascend"):
        Costs(decode=COSTS.decode[::-1], prefill=COSTS.prefill, copy_page_s=0, step_s=0, sequence_s=0)
