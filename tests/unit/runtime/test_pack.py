"""From plans to padded integer arrays."""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.runtime.pack import COUNT, FED, FIRST, GENERATED, HEADER, SAMPLE, SLOT, Packer
from andes_jax.runtime.shapes import Ladder, Shape
from andes_jax.scheduling.plan import Slice, StepPlan

LADDER = Ladder(decode_rows=(1, 4), prefill_queries=(4, 8))
WIDTH = 5


def _packer() -> Packer:
    return Packer(LADDER, max_sequences=4, table_width=WIDTH)


def test_decodes_share_one_padded_program():
    plan = StepPlan(1, (Slice(2, 9, 1, None, (5, 6), True, 3), Slice(0, 4, 1, (77,), (8,), False, 0)))
    (dispatch,) = _packer().pack(plan)
    assert dispatch.shape == Shape(4, 1) and dispatch.slices == (0, 1)
    rows = dispatch.rows
    assert rows[0, [SLOT, FIRST, COUNT, FED, SAMPLE, GENERATED]].tolist() == [2, 9, 1, 1, 1, 3]
    assert rows[1, [SLOT, FIRST, COUNT, FED, SAMPLE, GENERATED]].tolist() == [0, 4, 1, 0, 0, 0]
    assert rows[1, HEADER] == 77
    assert rows[0, HEADER + 1 :].tolist() == [5, 6, 0, 0, 0]
    assert rows[2:, SLOT].tolist() == [4, 4], "padding rows use the spare slot"
    assert not rows[2:, COUNT].any() and not rows[2:, SAMPLE].any() and not rows[2:, HEADER:].any()


def test_a_prompt_is_cut_into_programs_of_which_the_last_samples():
    ids = tuple(range(100, 110))
    plan = StepPlan(1, (Slice(1, 6, 10, ids, (3, 4), True, 0),))
    first, last = _packer().pack(plan)
    assert (first.shape, last.shape) == (Shape(1, 8), Shape(1, 4))
    assert first.rows[0, [FIRST, COUNT, SAMPLE]].tolist() == [6, 8, 0]
    assert last.rows[0, [FIRST, COUNT, SAMPLE]].tolist() == [14, 2, 1]
    assert last.rows[0, HEADER : HEADER + 4].tolist() == [108, 109, 0, 0]
    assert first.slices == () and last.slices == (0,)
    assert last.rows[0, HEADER + 4 :].tolist() == [3, 4, 0, 0, 0]


def test_a_mixed_plan_keeps_each_slices_place():
    plan = StepPlan(1, (Slice(0, 0, 3, (1, 2, 3), (2,), True), Slice(3, 7, 1, None, (4,), True, 1)))
    decode, prefill = _packer().pack(plan)
    assert decode.slices == (1,) and prefill.slices == (0,)


def test_one_token_with_wanted_scores_is_a_prefill():
    plan = StepPlan(1, (Slice(0, 5, 1, (9,), (2,), False, 0, (11,)),))
    (dispatch,) = _packer().pack(plan)
    assert dispatch.shape == Shape(1, 4) and dispatch.scored == 1
    assert dispatch.score_ids is not None and dispatch.score_ids.tolist() == [11, 0, 0, 0]


def test_a_changed_block_table_replaces_the_remembered_one():
    packer = _packer()
    packer.pack(StepPlan(1, (Slice(0, 5, 1, None, (2, 3, 4), True, 1),)))
    (again,) = packer.pack(StepPlan(2, (Slice(0, 6, 1, None, (9,), True, 2),)))
    assert again.rows[0, HEADER + 1 :].tolist() == [9, 0, 0, 0, 0]


def test_packed_arrays_are_not_reused():
    packer = _packer()
    plan = StepPlan(1, (Slice(0, 5, 1, None, (2,), True, 1),))
    (one,), (two,) = packer.pack(plan), packer.pack(plan)
    assert not np.shares_memory(one.rows, two.rows)


def test_a_prompt_without_ids_or_with_too_many_pages_is_an_error():
    with pytest.raises(ValueError, match="came without its ids"):
        _packer().pack(StepPlan(1, (Slice(0, 0, 3, None, (2,), True),)))
    with pytest.raises(ValueError, match="6 pages in slot 0"):
        _packer().pack(StepPlan(1, (Slice(0, 0, 1, None, (1, 2, 3, 4, 5, 6), True),)))
