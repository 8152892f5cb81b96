"""andes_jax.simulation.loop: every moment by hand, and the same as the engine's."""

from __future__ import annotations

import pytest

import andes_jax.engine.loop
from andes_jax.scheduling.plan import StepPlan
from andes_jax.simulation import loop
from andes_jax.simulation.loop import SimulationStuck
from tests.simulations import LinearTimes, arrive, exact_request_of, simulation


def times(outcome) -> list[float]:
    return pytest.approx(outcome.token_times_s.tolist())


def test_steps_run_ahead_as_in_the_engine():
    assert loop.Pipeline is andes_jax.engine.loop.Pipeline


def test_a_lone_reply_gets_a_token_a_step():
    (outcome,) = simulation([arrive(5.0)]).run()
    assert times(outcome) == [1.0, 2.0, 3.0]
    assert outcome.finish == "stop" and outcome.waited_s == 0.0 and outcome.preemptions == 0


def test_a_reply_may_also_end_at_what_was_asked_for():
    (outcome,) = simulation([arrive(5.0)], requests=exact_request_of).run()
    assert times(outcome) == [1.0, 2.0, 3.0] and outcome.finish == "length"


def test_whoever_comes_during_a_step_is_planned_for_after_the_next_one():
    # Steps end at 1, 2, 3, ...; at 1.5 the second step runs and the third has been planned when it ends.
    first, second = simulation([arrive(0.0, output=9), arrive(1.5, output=2)], leap=False).run()
    assert [float(moment) for moment in range(1, 10)] == times(first)
    assert times(second) == [2.5, 3.5]
    assert second.waited_s == pytest.approx(0.5)


def test_a_long_prompt_takes_several_steps():
    (outcome,) = simulation([arrive(0.0, prompt=40)], times=LinearTimes(1.0, prefill=0.1)).run()
    assert times(outcome) == [3 + 4.0, 3 + 4.0 + 1, 3 + 4.0 + 2]


def test_host_work_hides_behind_longer_steps_and_shows_before_shorter_ones():
    (hidden,) = simulation([arrive(0.0, output=5)], host_s=0.25).run()
    assert times(hidden) == [1.25, 2.25, 3.25, 4.25, 5.25]
    (shown,) = simulation([arrive(0.0, output=5)], host_s=1.5).run()
    # The first two steps are dispatched at 1.5 and 3.0; a result is read after the next dispatch.
    assert times(shown) == [3.0, 4.5, 6.0, 7.5, 9.0]


def test_readers_who_leave_are_cancelled():
    stays, leaves, early = simulation(
        [arrive(0.0, output=4), arrive(0.0, output=50, leaves=3.5), arrive(0.2, output=9, leaves=0.1)]
    ).run()
    assert stays.finish == "stop"
    assert leaves.finish == "cancelled" and times(leaves) == [1.0, 2.0, 3.0, 4.0]
    assert early.finish == "cancelled" and early.interrupted


def test_idle_time_is_jumped_over():
    run = simulation([arrive(0.0), arrive(1e6)])
    outcomes = run.run()
    assert times(outcomes[1]) == [1.0, 2.0, 3.0]
    # Two replies of three tokens, and the step that was planned before the stop token was read.
    assert run.steps == 2 * 4 and run.busy_s == pytest.approx(8.0)


def test_what_can_never_be_served_is_refused():
    refused, served = simulation([arrive(0.0, prompt=2000), arrive(0.0)]).run()
    assert refused.finish == "refused" and refused.waited_s is None
    assert served.finish == "stop"


def test_pages_in_use_are_integrated():
    run = simulation([arrive(0.0, prompt=4, output=3)], requests=exact_request_of)
    run.run()
    # One page for the prompt's step, two for the next two steps.
    assert run.held_page_s == pytest.approx(1 + 2 + 2, abs=1.01)
    assert run.held_page_s > 3


def test_work_without_a_plan_is_a_defect_that_is_told(monkeypatch):
    run = simulation([arrive(0.0)])
    monkeypatch.setattr(run._scheduler, "plan", lambda now: StepPlan(0))
    with pytest.raises(SimulationStuck, match="nothing can be planned at 0.000 s under fcfs: 0 run, 1 live"):
        run.run()


def test_steps_without_tokens_are_a_defect_that_is_told(monkeypatch):
    monkeypatch.setattr(loop, "LONGEST_DROUGHT", 2)
    with pytest.raises(SimulationStuck, match="2 steps brought no token"):
        simulation([arrive(0.0, prompt=100)]).run()


def test_somebody_who_comes_and_leaves_at_once_is_no_work():
    left, served = simulation([arrive(0.0, leaves=0.0), arrive(3.0)]).run()
    assert left.finish == "cancelled" and left.interrupted
    assert times(served) == [1.0, 2.0, 3.0]
