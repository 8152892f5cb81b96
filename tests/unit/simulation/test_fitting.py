"""Fitting: true costs come back from measurements of them, and noise makes nothing impossible."""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.fitted import Costs, FittedTimes, ProgramCost
from andes_jax.simulation.fitting import fit_costs, fit_error, line, with_engine, with_mixed
from andes_jax.simulation.measuring import Measurement

LADDER = Ladder((1, 4, 16), (16, 64))
TRUE = Costs(
    decode=tuple(ProgramCost(size=rows, base_s=0.01 + 0.001 * rows, slope_s=1e-6 * rows) for rows in (1, 4, 16)),
    prefill=tuple(ProgramCost(size=size, base_s=0.01 + 0.0005 * size, slope_s=1e-8 * size) for size in (16, 64)),
    copy_page_s=0.0003,
    step_s=0.0,
    sequence_s=0.0,
)
DECODES = [StepWork(rows, rows * context) for rows in (1, 4, 16) for context in (64, 512, 2048)]
PREFILLS = [StepWork(prefills=((size, before),)) for size in (16, 64) for before in (0, 64, 512, 2048)]
COPIES = [StepWork(1, 64, copied_pages=pages) for pages in (2, 8, 32)]


def measured(works, costs: Costs = TRUE, noise: float = 0.0, seed: int = 0) -> list[Measurement]:
    times, random = FittedTimes(costs), np.random.default_rng(seed)
    return [Measurement(work, times.seconds(work) * float(np.exp(random.normal(0, noise)))) for work in works]


def numbers(costs: Costs) -> list[float]:
    programs = [value for each in (*costs.decode, *costs.prefill) for value in (each.size, each.base_s, each.slope_s)]
    return [*programs, costs.copy_page_s, costs.step_s, costs.sequence_s]


def test_true_costs_come_back():
    costs = fit_costs(LADDER, measured(DECODES), measured(PREFILLS), measured(COPIES))
    assert numbers(costs) == pytest.approx(numbers(TRUE), rel=1e-6)


def test_noise_moves_predictions_no_further_than_itself():
    """Five percent on every measurement, from which the lines over several contexts take a part away."""
    costs = fit_costs(LADDER, *(measured(works, noise=0.05, seed=3) for works in (DECODES, PREFILLS, COPIES)))
    mixed = [StepWork(rows, rows * 300, ((size, 700),), 4) for rows in (1, 3, 9) for size in (5, 40, 64)]
    error = fit_error(FittedTimes(costs), measured(mixed))
    assert error is not None and error.steps == 9
    assert error.median < 0.05 and error.worst < 0.1 and abs(error.bias) < 0.05


def test_a_program_nobody_measured_is_left_out():
    costs = fit_costs(LADDER, measured(DECODES[:3]), measured(PREFILLS[:4]), [])
    assert [cost.size for cost in (*costs.decode, *costs.prefill)] == [1, 16]
    assert costs.copy_page_s == 0.0
    with pytest.raises(ValueError):
        fit_costs(LADDER, [], measured(PREFILLS), [])


def test_rows_that_cannot_be_filled_are_measured_as_they_run():
    """One sequence on a backend whose smallest program has two rows."""
    costs = fit_costs(Ladder((2,), (16,)), measured(DECODES[:3]), measured(PREFILLS[:4]), [])
    assert [cost.size for cost in costs.decode] == [2]
    assert FittedTimes(costs).seconds(StepWork(1, 64)) == pytest.approx(FittedTimes(TRUE).seconds(StepWork(1, 64)))


def test_what_an_engine_adds_is_told_from_what_programs_cost():
    works = [StepWork(rows, rows * 40) for rows in (1, 8, 16)]
    in_engine = measured(works, TRUE.model_copy(update={"step_s": 0.003, "sequence_s": 0.0002}))
    costs = with_engine(TRUE, in_engine)
    assert (costs.step_s, costs.sequence_s) == pytest.approx((0.003, 0.0002))
    assert with_engine(TRUE, []) == TRUE


def test_an_engine_that_seems_faster_than_its_programs_adds_nothing():
    faster = [Measurement(step.work, step.seconds * 0.9) for step in measured([StepWork(1, 40), StepWork(16, 640)])]
    costs = with_engine(TRUE, faster)
    assert (costs.step_s, costs.sequence_s) == (0.0, 0.0)


def test_prefills_that_cost_more_beside_decodes_are_told_from_steps_with_both():
    dearer = [
        cost.model_copy(update={"base_s": 1.2 * cost.base_s, "slope_s": 1.2 * cost.slope_s}) for cost in TRUE.prefill
    ]
    truth = TRUE.model_copy(update={"prefill": tuple(dearer)})
    both = [StepWork(4, 400, ((64, 0),)), StepWork(16, 9000, ((30, 512),)), StepWork(0, 0, ((16, 64),))]
    assert numbers(with_mixed(TRUE, measured(both, truth))) == pytest.approx(numbers(truth), rel=1e-6)
    assert with_mixed(TRUE, []) == TRUE


def test_lines_never_fall_and_never_begin_below_zero():
    assert line([1, 2, 3], [3, 5, 7]) == pytest.approx((1, 2))
    assert line([1, 2, 3], [7, 5, 3]) == pytest.approx((5, 0))
    base, slope = line([1, 2, 3], [0.5, 2, 3.5])
    assert base == 0 and slope == pytest.approx(15 / 14)
    assert line([4, 4], [2, 3]) == pytest.approx((2.5, 0))
    assert line([0, 0], [2, 3]) == pytest.approx((2.5, 0))


def test_errors_are_shares_of_what_was_measured():
    steps = [Measurement(step.work, step.seconds / 1.1) for step in measured(DECODES)]
    error = fit_error(FittedTimes(TRUE), steps)
    assert error is not None
    assert (error.median, error.worst, error.bias) == pytest.approx((0.1, 0.1, 0.1))
    assert fit_error(FittedTimes(TRUE), []) is None
