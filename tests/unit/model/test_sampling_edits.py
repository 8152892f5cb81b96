from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from andes_jax.model import sampling_edits
from andes_jax.model.sampling_state import unpack
from andes_jax.request import SamplingParams
from tests.unit.model.sampling_reference import edited, state_of

VOCAB = 50
PLAIN = SamplingParams(max_tokens=9)
PROMPT, OUTPUT = [1, 2, 2, 49], [3, 3, 3, 2]
ROWS = [
    PLAIN,
    replace(PLAIN, presence_penalty=0.5),
    replace(PLAIN, frequency_penalty=-0.7),
    replace(PLAIN, repetition_penalty=1.3),
    replace(PLAIN, repetition_penalty=0.6, presence_penalty=-2.0, frequency_penalty=2.0),
    replace(PLAIN, logit_bias=tuple((token, token / 10 - 2) for token in range(VOCAB))),
    replace(PLAIN, stop_ids=(0, 3, 49), min_tokens=5),
    replace(
        PLAIN, logit_bias=((2, 90.0), (3, -100.0)), repetition_penalty=1.2, frequency_penalty=0.1, stop_ids=(2,),
        min_tokens=5,
    ),
]  # fmt: skip

edit = jax.jit(sampling_edits.edit)


def edits_of(logits: np.ndarray, rows: list[SamplingParams], generated: int) -> tuple[np.ndarray, np.ndarray]:
    state = state_of(rows, VOCAB, [PROMPT] * len(rows), [OUTPUT] * len(rows))
    slots = np.arange(len(rows), dtype=np.int32)
    parameters = unpack(state.parameters[slots])._replace(slot=slots)
    position = np.full(len(rows), generated, np.int32)
    changed = sampling_edits.is_edited(parameters, position)
    return np.asarray(edit(logits, parameters, state, position)), np.asarray(changed)


@pytest.mark.parametrize("generated", [0, 4, 5])
def test_each_edit_is_what_its_definition_says(generated: int) -> None:
    logits = np.random.default_rng(generated).normal(size=(len(ROWS), VOCAB)).astype(np.float32) * 4
    logits[:, 30] = -np.inf
    found, changed = edits_of(logits, ROWS, generated)
    for row, x, before, is_changed in zip(ROWS, found, logits, changed, strict=True):
        assert x == pytest.approx(edited(before, row, PROMPT, OUTPUT, generated), rel=1e-5, abs=1e-5)
        assert is_changed == (not np.array_equal(x, before))


def test_rows_without_a_parameter_keep_their_bits_beside_rows_with_it() -> None:
    logits = np.random.default_rng(9).normal(size=(len(ROWS), VOCAB)).astype(np.float32)
    assert np.array_equal(edits_of(logits, ROWS, 0)[0][0], logits[0])


def test_a_ban_of_all_that_is_left_is_void() -> None:
    logits = np.full((len(ROWS), VOCAB), -np.inf, np.float32)
    logits[:, 3] = 1.0
    found, _ = edits_of(logits, ROWS, 0)
    assert found[6, 3] == 1.0


def test_extreme_logits_stay_finite_under_penalties() -> None:
    rows = [replace(PLAIN, repetition_penalty=penalty) for penalty in (1e-9, 1e9)] * 4
    logits = np.zeros((len(rows), VOCAB), np.float32)
    logits[:, 1], logits[:, 2] = 1e38, -1e38
    found, _ = edits_of(logits, rows, 0)
    assert np.isfinite(found).all() and found[0, 1] > 1e38 and found[1, 2] < -1e38
