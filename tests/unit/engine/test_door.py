"""Requests come in together or not at all."""

from __future__ import annotations

import pytest

from andes_jax.engine.door import check_open, places_of_batches
from andes_jax.request import Refusal, Tier
from tests.fakes import make_request


@pytest.mark.parametrize(
    ("state", "live", "asked", "code"),
    [
        ("starting", "a", "bc", None),
        ("ready", "", "abc", None),
        ("ready", "a", "bc", None),
        ("ready", "ab", "cd", "engine_overloaded"),
        ("ready", "abc", "d", "engine_overloaded"),
        ("ready", "", "abcd", "too_many_requests"),
        ("ready", "abc", "a", "duplicate_request"),
        ("ready", "", "aa", "duplicate_request"),
        ("draining", "", "a", "shutting_down"),
        ("stopped", "", "a", "shutting_down"),
        ("failed", "", "a", "engine_failed"),
    ],
)
def test_three_at_most(state, live, asked, code):
    requests = [make_request(name, [1], 1) for name in asked]
    if code is None:
        check_open(state, set(live), requests, 3)
        return
    with pytest.raises(Refusal) as refusal:
        check_open(state, set(live), requests, 3)
    assert refusal.value.code == code


@pytest.mark.parametrize(("most", "of_batches"), [(1, 0), (2, 1), (3, 2), (4, 3), (5, 3), (8, 6), (1056, 792)])
def test_a_quarter_is_not_for_batch_requests(most, of_batches):
    assert places_of_batches(most) == of_batches
    asked = [make_request("new", [1], 1, tier=Tier.BATCH)]
    for live in range(most):
        ids = {f"{number}" for number in range(live)}
        check_open("ready", ids, [make_request("new", [1], 1)], most)
        if live < max(of_batches, 1):  # alone, one is always taken
            check_open("ready", ids, asked, most)
            continue
        with pytest.raises(Refusal) as refusal:
            check_open("ready", ids, asked, most)
        assert refusal.value.code == "engine_overloaded"


def test_a_batch_call_of_many_replies_is_taken_when_nobody_else_is_there():
    asked = [make_request(f"{number}", [1], 1, tier=Tier.BATCH) for number in range(8)]
    check_open("ready", set(), asked, 8)
    with pytest.raises(Refusal) as refusal:
        check_open("ready", {"other"}, asked[:7], 8)
    assert refusal.value.code == "engine_overloaded"
