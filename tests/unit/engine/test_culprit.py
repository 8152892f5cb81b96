from __future__ import annotations

import math

import pytest

from andes_jax.engine.culprit import CulpritSearch


def search(suspects: list[str], guilty: set[str]) -> tuple[str | None, list[tuple[str, ...]]]:
    halving, trials = CulpritSearch(suspects), []
    while not halving.over:
        trials.append(halving.trial)
        if guilty & set(halving.trial):
            halving.failed()
        else:
            halving.passed()
    return halving.culprit, trials


@pytest.mark.parametrize("count", [1, 2, 3, 7, 32])
def test_the_culprit_is_found_wherever_it_is_and_fails_alone(count):
    suspects = [f"r{index}" for index in range(count)]
    for culprit in suspects:
        found, trials = search(suspects, {culprit})
        assert found == culprit and trials[-1] == (culprit,)
        assert len(trials) <= 2 * math.ceil(math.log2(count)) + 1


@pytest.mark.parametrize("count", [1, 2, 5, 32])
def test_a_fault_that_does_not_come_back_costs_nobody(count):
    found, trials = search([f"r{index}" for index in range(count)], set())
    assert found is None and len(trials) <= math.ceil(math.log2(count)) + 2


def test_one_of_several_is_found():
    found, _ = search([f"r{index}" for index in range(8)], {"r1", "r6"})
    assert found in {"r1", "r6"}


def test_failed_says_who_once_it_is_certain():
    halving = CulpritSearch(["a", "b"])
    assert halving.failed() == "a"
    with pytest.raises(ValueError, match="no suspects"):
        CulpritSearch([])
