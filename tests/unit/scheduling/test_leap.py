from __future__ import annotations

from math import ceil, inf

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from andes_jax.memory.pool import PagePool
from andes_jax.request import QoeTarget, Tier
from andes_jax.scheduling.leap import MADE_UP_TOKEN
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.plan import StepPlan, StepResult
from andes_jax.scheduling.policies import SIMULATED_NAMES, create_policy
from andes_jax.scheduling.scheduler import Scheduler
from tests.fakes import make_request
from tests.unit.scheduling.parts import known_times

STEP_S = 0.25


def scheduler_of(
    policy: str = "fcfs", *, pages: int = 100, page_tokens: int = 4, slots: int = 4,
    host_pages: int = 0, max_preempt: int = 3, chunk: int = 16,
) -> Scheduler:  # fmt: skip
    limits = SchedulerLimits(slots, 200, max(slots, 32), chunk, page_tokens, max_preempt)
    chosen = create_policy(policy, max_model_len=200)
    times = known_times(step=STEP_S, page=1e-3)
    return Scheduler(chosen, PagePool(pages), None, limits, host_pages=host_pages, times=times)


def round_of(scheduler: Scheduler, now: float) -> StepPlan:
    """A step planned at `now` and committed when it ends, in which everybody draws the made-up token."""
    plan = scheduler.plan(now)
    if plan.slices:
        count = len(plan.slices)
        result = StepResult(plan.number, np.full(count, MADE_UP_TOKEN, np.int32), np.ones(count, bool))
        scheduler.commit(result, now + STEP_S, STEP_S)
    return plan


def state(scheduler: Scheduler) -> list:
    """All that later decisions depend on."""
    roster, pool = scheduler.roster, scheduler.pool
    sequences = [
        (
            s.id,
            s.state,
            s.token_ids,
            s.known,
            s.computed,
            s.capacity,
            s.pages,
            s.published,
            s.in_flight,
            s.preempt_count,
        )
        for s in roster.live.values()
    ]
    counts = (pool.free, pool.cached, pool.live, scheduler.generated_tokens, scheduler._number)
    return [sequences, counts, [s.id for s in roster.running], [s.id for s in roster.waiting.members]]


def ledger_of(scheduler: Scheduler, now: float) -> np.ndarray:
    rows = np.array([sequence.row for sequence in scheduler.roster.live.values()], dtype=np.int64)
    return np.array(scheduler.ledger.columns(rows, now))


REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 40), st.integers(1, 60), st.sampled_from(Tier),
        st.sampled_from([None, QoeTarget(1.0, 5.0), QoeTarget(0.1, 1.0), QoeTarget(0.0, 40.0)]),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=7,
)  # fmt: skip
MACHINES = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(SIMULATED_NAMES),
        "pages": st.sampled_from([28, 40, 60, 300]),
        "page_tokens": st.sampled_from([1, 4]),
        "slots": st.integers(1, 6),
        "host_pages": st.sampled_from([0, 20]),
        "max_preempt": st.sampled_from([0, 1, 3]),
    }
)


@settings(max_examples=60, deadline=None)
@given(REQUESTS, MACHINES, st.integers(1, 60))
def test_a_leap_is_as_many_single_steps(requests, machine, most):
    """Two schedulers with one history: one leaps wherever it may, the other never; they never differ."""
    leaping, stepping = scheduler_of(**machine), scheduler_of(**machine)
    limit = leaping.pool.total * leaping.limits.page_tokens
    now, number, leapt = 0.0, 0, 0
    pending = [each for each in requests if each[0] + each[1] - 1 <= limit]
    count = len(pending)
    while pending or leaping.has_work:
        while pending and pending[0][4] <= number:
            prompt, tokens, tier, reader, _ = pending.pop(0)
            request = make_request(
                f"r{count - len(pending)}", [0] * prompt, tokens, tier=tier, arrived_s=now, qoe=reader
            )
            for each in (leaping, stepping):
                each.add(request, now)
        quiet = leaping.quiet_steps(now)
        assert quiet == stepping.quiet_steps(now)
        steps = min(quiet - 1, most)
        if leaping.next_look_s < inf:
            steps = min(steps, ceil((leaping.next_look_s - now) / STEP_S))
        if pending:
            steps = min(steps, pending[0][4] - number)
        if steps > 0:
            running = [sequence.id for sequence in stepping.roster.running]
            for step in range(steps):
                plan = round_of(stepping, now + step * STEP_S)
                assert [part.count for part in plan.slices] == [1] * len(running), "one decode for each"
                assert not plan.admissions and not plan.saves and not plan.loads
            leaping.leap(now + STEP_S * np.arange(1, steps + 1))
            leapt += steps > 1
        else:
            steps = 1
            assert round_of(leaping, now) == round_of(stepping, now)
        now, number = now + steps * STEP_S, number + steps
        assert state(leaping) == state(stepping)
        np.testing.assert_allclose(ledger_of(leaping, now), ledger_of(stepping, now), rtol=1e-12, atol=1e-9)
        assert number < 4000
    event("leapt" if leapt else "never leapt")
    for each in (leaping, stepping):
        each.pool.check()
        assert each.pool.live == 0


def started(tokens: int = 50, count: int = 2, **machine) -> Scheduler:
    scheduler = scheduler_of(**machine)
    for index in range(count):
        scheduler.add(make_request(f"r{index}", [index] * 4, tokens + index), 0.0)
    round_of(scheduler, 0.0)
    return scheduler


def test_quiet_until_the_first_reply_draws_its_last_token():
    scheduler = started(50)
    # After its prompt's step each knows 1 of its tokens; the one with 50 computes 49 more positions.
    assert scheduler.quiet_steps(STEP_S) == 49
    scheduler.leap(STEP_S * np.arange(2, 50))
    assert scheduler.quiet_steps(50 * STEP_S) == 1 and scheduler.generated_tokens == 2 + 2 * 48


def test_a_decision_that_is_due_is_not_leapt_over():
    scheduler = started()
    scheduler.add(make_request("new", [1] * 4, 5), 1.0)
    assert scheduler.quiet_steps(1.0) == 0, "somebody has come"
    assert scheduler_of().quiet_steps(0.0) == 0, "nobody runs"
    assert started(max_preempt=0).quiet_steps(1.0) == 0, "pages are given as all can be finished"
    scheduler = started(slots=2)
    scheduler.cancel("r0")
    scheduler.plan(1.0)
    assert scheduler.quiet_steps(1.0) > 0
    scheduler.cancel("r1")
    assert scheduler.quiet_steps(1.0) == 0, "a step in flight uses what the last one held"


def test_prompts_are_not_leapt_over():
    scheduler = scheduler_of(chunk=4)
    scheduler.add(make_request("long", [1] * 40, 5), 0.0)
    round_of(scheduler, 0.0)
    assert scheduler.quiet_steps(1.0) == 0


def test_who_waits_is_looked_at_in_time():
    scheduler = started(policy="three_tier", slots=2)
    scheduler.add(make_request("waits", [1] * 4, 5), STEP_S)
    round_of(scheduler, STEP_S)
    assert scheduler.next_look_s == pytest.approx(STEP_S + scheduler.policy.look_s)
    assert scheduler.quiet_steps(STEP_S) > 0
    assert scheduler.quiet_steps(scheduler.next_look_s) == 0
    assert started().next_look_s == float("inf")


def test_a_stretch_is_as_long_as_pages_certainly_last():
    scheduler = started(50, pages=60, page_tokens=1)
    # 51 pages are free, but each may take up to 8 ahead of its need: 35 are 17 for each.
    assert scheduler.quiet_steps(STEP_S) == 17
    scheduler.leap(STEP_S * np.arange(2, 19))
    assert scheduler.pool.available == 17 and scheduler.quiet_steps(19 * STEP_S) == 0
