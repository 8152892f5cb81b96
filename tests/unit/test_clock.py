"""andes_jax.clock"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.clock import VirtualClock, WallClock


def test_the_wall_clock_is_monotonic_time():
    before = time.monotonic()
    assert before <= WallClock().now() <= time.monotonic()


@given(st.floats(-1e6, 1e6), st.lists(st.floats(0, 1e6), max_size=10))
def test_a_virtual_clock_moves_by_what_it_is_told(start_s, steps):
    clock, expected = VirtualClock(start_s), start_s
    for seconds in steps:
        clock.advance(seconds)
        expected += seconds
        assert clock.now() == expected


def test_a_virtual_clock_does_not_go_back():
    clock = VirtualClock(5.0)
    with pytest.raises(ValueError, match="by 1 s"):
        clock.advance(-1)
    assert clock.now() == 5.0


def test_a_virtual_clock_is_turned_to_a_moment_exactly():
    clock = VirtualClock(0.1)
    clock.advance_to(0.3)
    assert clock.now() == 0.3  # 0.1 + (0.3 - 0.1) is not
    clock.advance_to(0.2)
    assert clock.now() == 0.3
