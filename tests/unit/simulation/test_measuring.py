"""Measuring on a modelled device: the model comes back, and plans keep to what the runner can do."""

from __future__ import annotations

import pytest

from andes_jax.clock import VirtualClock
from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.plan import StepPlan
from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation import measuring
from andes_jax.simulation.fitted import Costs, FittedTimes, ProgramCost
from andes_jax.simulation.fitting import fit_costs, fit_error
from andes_jax.simulation.measuring import Measurement, RunnerShape, measure, words_of
from andes_jax.simulation.runner import SimulatedRunner

LADDER = Ladder((1, 2, 4, 8), (16, 64, 256))
SHAPE = RunnerShape(LADDER, pages=400, page_tokens=64, max_model_len=4096, max_sequences=8, host_pages=64)
SMALL = RunnerShape(Ladder((2, 4), (16, 32)), pages=9, page_tokens=16, max_model_len=128, max_sequences=3, host_pages=0)
COSTS = Costs(
    decode=tuple(ProgramCost(size=rows, base_s=0.01 + 0.001 * rows, slope_s=1e-6) for rows in LADDER.decode_rows),
    prefill=tuple(ProgramCost(size=size, base_s=0.01 + 0.0005 * size, slope_s=1e-8) for size in LADDER.prefill_queries),
    copy_page_s=0.0003,
    step_s=0.0,
    sequence_s=0.0,
)


class Device(SimulatedRunner):
    """Keeps the plans it was given, and slows down after some."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock, FittedTimes(COSTS))
        self.plans: list[StepPlan] = []
        self.clock = clock
        self.stalls: dict[int, float] = {}

    def dispatch(self, plan: StepPlan) -> None:
        self.plans.append(plan)
        super().dispatch(plan)

    def collect(self):
        result = super().collect()
        self.clock.advance(self.stalls.get(result.number, 0.0))
        return result


@pytest.fixture
def device():
    return Device(VirtualClock())


def run(device: Device, plans: list[StepPlan], shape: RunnerShape = SHAPE) -> list[Measurement]:
    return measure(device, plans, shape, now=device.clock.now)


def test_costs_of_the_device_come_back_and_foretell_mixed_steps(device):
    cases = (measuring.decode_cases(SHAPE), measuring.prefill_cases(SHAPE), measuring.copy_cases(SHAPE))
    costs = fit_costs(LADDER, *(run(device, plans) for plans in cases))
    for found, true in zip((*costs.decode, *costs.prefill), (*COSTS.decode, *COSTS.prefill), strict=True):
        assert (found.size, found.base_s, found.slope_s) == pytest.approx((true.size, true.base_s, true.slope_s))
    assert costs.copy_page_s == pytest.approx(COSTS.copy_page_s)
    error = fit_error(FittedTimes(costs), run(device, measuring.mixed_cases(SHAPE, 1)))
    assert error is not None and error.steps == measuring.MIXED_CASES and error.worst < 1e-6


@pytest.mark.parametrize("shape", [SHAPE, SMALL])
def test_plans_are_such_as_a_runner_takes(device, shape):
    plans = [*measuring.decode_cases(shape), *measuring.prefill_cases(shape), *measuring.copy_cases(shape)]
    plans += measuring.mixed_cases(shape, 2)
    assert plans
    run(device, plans, shape)
    admitted: set[int] = set()
    saved: set[int] = set()
    for number, plan in enumerate(device.plans, start=1):
        assert plan.number == number
        admitted |= {admission.slot for admission in plan.admissions}
        written = [page for part in plan.slices for page in part.pages]
        assert len(set(written)) == len(written) and all(0 < page < shape.pages for page in written)
        assert len({part.slot for part in plan.slices}) == len(plan.slices) <= shape.max_sequences
        for part in plan.slices:
            assert part.slot in admitted
            assert part.first + part.count <= min(shape.max_model_len, len(part.pages) * shape.page_tokens)
            assert part.count <= shape.ladder.prefill_queries[-1]
        saved |= {page for copy in plan.saves for page in copy.host_pages}
        for copy in (*plan.saves, *plan.loads):
            assert all(0 < page < shape.pages for page in copy.device_pages) and not set(copy.device_pages) & {*written}
            assert all(0 <= page < shape.host_pages for page in copy.host_pages)
        assert all(page in saved for copy in plan.loads for page in copy.host_pages)


def test_every_program_is_measured_full():
    decodes = {len(plan.slices) for plan in measuring.decode_cases(SHAPE)}
    prefills = {plan.slices[0].count for plan in measuring.prefill_cases(SHAPE)}
    assert (decodes, prefills) == ({1, 2, 4, 8}, {16, 64, 256})
    assert {len(plan.slices) for plan in measuring.decode_cases(SMALL)} == {2, 3}  # of 4 rows, 3 can be used
    assert measuring.copy_cases(SMALL) == []


def test_contexts_are_as_long_as_the_cache_allows():
    assert SHAPE.contexts(1, 1) == (64, 512, 2048)
    assert SMALL.contexts(1, 1) == (64, 127)
    assert SMALL.contexts(3, 1) == (31,)
    assert SMALL.contexts(9, 1) == ()


def test_a_stall_does_not_count(device):
    """One step that others held up, of many."""
    device.stalls[15] = 30.0
    (found,) = run(device, measuring.decode_cases(SHAPE)[:1])
    assert found.seconds == pytest.approx(FittedTimes(COSTS).seconds(found.work))


def test_a_slow_machine_is_measured_once_rather_than_for_long(device, monkeypatch):
    plans = measuring.decode_cases(SHAPE)
    run(device, plans)
    thorough = len(device.plans)
    monkeypatch.setattr(measuring, "PATIENCE_S", 0.0)
    told: list[str] = []
    measure(device, plans, SHAPE, now=device.clock.now, progress=told.append)
    assert len(told) == len(plans)
    assert len(device.plans) - thorough < thorough / 2


def test_work_in_words():
    assert words_of(StepWork(8, 800)) == "8 decodes"
    assert words_of(StepWork(0, 0, ((16, 64),), 4)) == "16 prompt tokens after 64, 4 pages copied"
