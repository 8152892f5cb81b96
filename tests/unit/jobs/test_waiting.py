"""Waits grow, differ, and end with patience."""

from __future__ import annotations

from andes_jax.jobs.waiting import FIRST_WAIT_S, LONGEST_WAIT_S
from tests.unit.jobs.parts import Waits


async def test_waits_grow_up_to_the_longest_and_end_at_the_limit():
    waits = Waits()
    patience = waits.patience(600)
    while await patience.wait():
        pass
    assert 500 < waits.now_s <= 600
    assert waits.slept[0] <= FIRST_WAIT_S and LONGEST_WAIT_S / 2 <= max(waits.slept) <= LONGEST_WAIT_S
    for index, slept in enumerate(waits.slept):
        longest = min(FIRST_WAIT_S * 2**index, LONGEST_WAIT_S)
        assert longest / 2 <= slept <= longest


async def test_a_wait_that_was_asked_for_is_kept_and_none_is_begun_in_vain():
    waits = Waits()
    assert await waits.patience().wait(at_least_s=40) and waits.slept == [40]
    assert not await waits.patience().wait(at_least_s=101) and waits.slept == [40]
    assert not await waits.patience(0).wait() and waits.slept == [40]
