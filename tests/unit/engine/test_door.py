"""Requests come in together or not at all."""

from __future__ import annotations

import pytest

from andes_jax.engine.door import check_open
from andes_jax.request import Refusal
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
