from __future__ import annotations

from andes_jax.scheduling.plan import Slice, StepPlan


def test_tokens_of_a_step_are_those_of_its_slices():
    slices = (Slice(0, 5, 1, None, (1, 2), True), Slice(1, 0, 7, tuple(range(7)), (3, 4), False))
    assert StepPlan(1, slices).tokens == 8
    assert StepPlan(2).tokens == 0
