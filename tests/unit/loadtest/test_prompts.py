"""Prompts by seed."""

from __future__ import annotations

import pytest

from andes_jax.failure import UsageError
from andes_jax.loadtest.prompts import Prompts, parse_token_ids


def test_prompts_have_their_length_and_range_and_are_reproducible():
    prompts = Prompts(seed=3, low=50, high=60)
    ids = prompts.ids(7, 500)
    assert len(ids) == 500 and set(ids) == set(range(50, 60))
    assert ids == Prompts(seed=3, low=50, high=60).ids(7, 500)
    assert len(prompts.text(7, 20).split()) == 20


def test_prompts_differ_from_the_first_tokens_on():
    prompts = Prompts(seed=3)
    starts = {tuple(prompts.ids(index, 100)[:4]) for index in range(50)}
    assert len(starts) == 50
    assert Prompts(seed=4).ids(0, 10) != prompts.ids(0, 10)


def test_a_shared_prefix_is_shared_and_the_rest_is_not():
    prompts = Prompts(seed=3, shared_prefix=8)
    one, two, short = prompts.ids(0, 20), prompts.ids(1, 20), prompts.ids(2, 5)
    assert one[:8] == two[:8] and one[8:] != two[8:] and len(one) == 20
    assert short == one[:5]


@pytest.mark.parametrize("words", ["", "5", "a:b", "5:", "9:9", "-1:5", "10:5"])
def test_ranges_that_are_none(words):
    with pytest.raises(UsageError, match="token ids"):
        Prompts(1, *parse_token_ids(words))


def test_a_range():
    assert parse_token_ids("32:250") == (32, 250)
