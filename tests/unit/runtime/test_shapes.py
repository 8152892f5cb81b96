"""The ladder of compiled shapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.runtime.shapes import FIXED_COST_TOKENS, Ladder


def test_a_ladder_ends_at_its_limits():
    ladder = Ladder.for_limits(24, 100, lone_row=True)
    assert ladder.decode_rows[0] == 1 and ladder.decode_rows[-1] == 24
    assert ladder.prefill_queries == (16, 64, 100)
    assert len(ladder.shapes) == len(set(ladder.shapes))


def test_no_product_with_one_row_where_it_is_slow():
    assert Ladder.for_limits(1, 64, lone_row=False).decode_rows == (2,)
    assert Ladder.for_limits(32, 64, lone_row=False).decode_rows[0] == 2


@given(st.integers(1, 64), st.booleans())
def test_every_number_of_decodes_has_a_shape(count, lone_row):
    ladder = Ladder.for_limits(64, 256, lone_row=lone_row)
    rows = ladder.rows_for(count)
    assert rows >= count and rows in ladder.decode_rows
    assert rows <= max(2, 2 * count)


def test_too_many_decodes_are_an_error():
    with pytest.raises(ValueError, match="33 sequences in one step"):
        Ladder.for_limits(32, 64, lone_row=True).rows_for(33)


@given(st.integers(1, 2000))
def test_a_cut_covers_the_slice_with_padding_in_the_last_part_alone(count):
    ladder = Ladder.for_limits(32, 256, lone_row=True)
    parts = ladder.cut(count)
    assert set(parts) <= set(ladder.prefill_queries)
    assert sum(parts) >= count > sum(parts[:-1])


def test_a_cut_costs_least():
    ladder = Ladder(decode_rows=(1,), prefill_queries=(16, 64, 256))
    assert ladder.cut(300) == (256, 64)
    assert ladder.cut(256) == (256,)
    assert ladder.cut(250) == (256,), "one padded program is cheaper than reading the weights five times"
    assert ladder.cut(70) == (64, 16)
    assert 16 + 64 + 2 * FIXED_COST_TOKENS < 256 + FIXED_COST_TOKENS
