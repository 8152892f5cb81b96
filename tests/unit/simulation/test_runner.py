"""andes_jax.simulation.runner"""

from __future__ import annotations

import pytest

from andes_jax.clock import VirtualClock
from andes_jax.request import SamplingParams
from andes_jax.scheduling.plan import Admission, PageCopy, Slice, StepPlan
from andes_jax.simulation.runner import STOP_TOKEN, TOKEN, SimulatedRunner, work_of
from tests.simulations import LinearTimes


def decode(slot: int, first: int, generated: int = 1) -> Slice:
    return Slice(slot, first, 1, None, (1, 2), True, generated)


def test_work_is_told_apart_as_the_real_runner_packs_it():
    prompt = Slice(2, 8, 5, (0,) * 5, (3, 4), False)
    scored = Slice(3, 0, 1, (0,), (5,), True, 0, (7,))
    saves = (PageCopy((1, 2), (0, 1)), PageCopy((3,), (2,)))
    plan = StepPlan(1, (decode(0, 10), prompt, decode(1, 20), scored), saves=saves, loads=(PageCopy((6,), (9,)),))
    work = work_of(plan)
    assert work.decodes == 2 and work.decode_context == 11 + 21
    assert work.prefills == ((5, 8), (1, 0))
    assert work.copied_pages == 4


def test_steps_follow_each_other_without_a_gap_and_never_before_their_dispatch():
    clock = VirtualClock(10.0)
    runner = SimulatedRunner(clock, LinearTimes(step=1.0, decode=0.5))
    runner.dispatch(StepPlan(1, (decode(0, 4),)))
    clock.advance(0.25)
    runner.dispatch(StepPlan(2, (decode(0, 5), decode(1, 5))))
    assert runner.next_end_s == 11.5
    first = runner.collect()
    assert (first.number, clock.now(), first.device_s) == (1, 11.5, 1.5)
    assert runner.collect().number == 2 and clock.now() == 13.5
    clock.advance(1.5)
    runner.dispatch(StepPlan(3, (decode(0, 6),)))
    runner.collect()
    assert clock.now() == 16.5
    assert runner.busy_s == pytest.approx(1.5 + 2.0 + 1.5)


def test_collecting_late_does_not_turn_the_clock():
    clock = VirtualClock()
    runner = SimulatedRunner(clock, LinearTimes())
    runner.dispatch(StepPlan(1, (decode(0, 4),)))
    clock.advance(5.0)
    runner.collect()
    assert clock.now() == 5.0


def test_a_reply_ends_with_the_stop_token_at_its_true_length():
    runner = SimulatedRunner(VirtualClock(), LinearTimes(), lengths=[1, 3])
    seeds = [Admission(slot, SamplingParams(99, seed=seed), (0,)) for slot, seed in ((4, 1), (5, 0), (6, 2))]
    draws = (decode(4, 4, generated=1), decode(5, 4, generated=0), decode(6, 4, generated=2))
    runner.dispatch(StepPlan(1, draws, tuple(seeds)))
    assert runner.collect().token_ids.tolist() == [TOKEN, STOP_TOKEN, TOKEN]
    runner.dispatch(StepPlan(2, (decode(4, 5, generated=2), Slice(5, 0, 1, (0,), (1,), False))))
    result = runner.collect()
    assert result.token_ids.tolist() == [STOP_TOKEN, TOKEN]
    assert result.finite.all() and result.token_ids.dtype == "int32"


def test_reset_forgets_steps_in_flight():
    runner = SimulatedRunner(VirtualClock(), LinearTimes())
    runner.dispatch(StepPlan(1, (decode(0, 4),)))
    runner.reset()
    with pytest.raises(IndexError):
        runner.collect()
