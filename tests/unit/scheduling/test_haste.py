from __future__ import annotations

import pytest

from andes_jax.request import FinishReason, Tier
from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.haste import MOST_IN_A_ROW, PATIENCE_S, Haste
from andes_jax.scheduling.learned_times import LearnedTimes
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.sequence import Sequence, State
from tests.fakes import Rig, expected_ids, make_request
from tests.unit.scheduling.parts import known_times

REALTIME, STREAMING, BATCH = Tier
LIMITS = SchedulerLimits(64, 4096, 240, 240, 16, realtime_aim_s=0.2)
TIMES = known_times(step=0.01, decode=0.001, context=1e-5, prefill=0.0005)


def sequence(tier: Tier = REALTIME, prompt: int = 10, generated: int = 0, arrived_s: float = 0.0) -> Sequence:
    made = Sequence(make_request("a", range(prompt), 50, tier=tier, arrived_s=arrived_s), 1)
    made.known = prompt + generated
    made.computed = max(made.known - 1, 0) if generated else 0
    return made


def test_first_tokens_of_realtime_requests_are_waited_for_until_they_are_drawn_or_too_late():
    owner = Haste(TIMES, LIMITS)
    owner.expect(sequence(STREAMING))
    owner.expect(sequence(BATCH))
    assert not owner.expects(0.0)
    soon, ended = sequence(arrived_s=5.0), sequence(arrived_s=5.0)
    owner.expect(soon)
    owner.expect(ended)
    assert owner.expects(5.0) and owner.expects(5.0 + PATIENCE_S - 0.01) and not owner.expects(5.0 + PATIENCE_S)
    owner.expect(soon)
    owner.expect(ended)
    ended.state = State.FINISHED
    assert owner.expects(5.0)
    soon.known += 1
    assert not owner.expects(5.0)


def test_nobody_is_remembered_for_longer_than_anybody_waits_for_it():
    """Also where nobody ever asks, as with policies that leave nobody out, and without batch work."""
    for policy in ("three_tier", "fcfs"):
        rig, kept = Rig(policy=policy), []
        for index in range(200):
            rig.now = index * PATIENCE_S / 4
            rig.add(make_request(f"r{index}", [1], 2, tier=REALTIME, arrived_s=rig.now))
            rig.run()
            kept.append(len(rig.scheduler._haste._awaited))
        assert max(kept) <= 5


def test_before_step_times_are_learnt_there_is_no_haste():
    owner = Haste(LearnedTimes(1), LIMITS)
    owner.expect(sequence())
    assert not owner.expects(0.0)


def test_batch_work_is_patient_but_only_while_it_draws():
    running = [sequence(BATCH, generated=1), sequence(BATCH), sequence(generated=1), sequence(STREAMING, generated=5)]
    urgent, patient = Haste.sort(running)
    assert patient == running[:1] and urgent == running[1:]


@pytest.mark.parametrize(
    ("decodes", "in_flight_s", "prompt", "leaves_out"),
    [
        # A step takes 10 ms, 1 ms a decode, and 50 ms for 100 tokens of a prompt; it holds 240 tokens.
        (100, 0.0, 100, False),  # 160 ms of 200
        (100, 0.05, 100, True),  # the step before takes 50 ms of them
        (139, 0.0, 100, False),
        (141, 0.0, 100, True),
        (40, 0.0, 200, False),  # 150 ms
        (41, 0.0, 200, True),  # two steps of 51 ms, and 100 ms
        (500, 9.0, 0, False),  # nobody waits
    ],
)
def test_whether_a_first_token_would_be_late(decodes, in_flight_s, prompt, leaves_out):
    owner = Haste(TIMES, LIMITS)
    if prompt:
        waits = sequence(prompt=prompt, arrived_s=1.0)
        waits.state = State.RUNNING
        owner.expect(waits)
    patient = [sequence(BATCH, prompt=0, generated=1)] * decodes
    for each in patient:
        each.known = 0
    assert owner.leaves_out(Draft(), patient, 1.0, in_flight_s, starting=False) is leaves_out


def test_who_has_no_slot_counts_when_there_may_be_one():
    owner = Haste(TIMES, LIMITS)
    waits = sequence(prompt=100, arrived_s=0.0)
    waits.place = 0
    owner.expect(waits)
    patient = [sequence(BATCH, generated=1)]
    assert not owner.leaves_out(Draft(), patient, 0.19, 0.0, starting=False)
    assert owner.leaves_out(Draft(), patient, 0.19, 0.0, starting=True)
    waits.place = None
    assert not owner.leaves_out(Draft(), patient, 0.19, 0.0, starting=True), "it is paused"


def test_those_left_out_get_a_step_now_and_then_whatever_comes():
    owner = Haste(TIMES, LIMITS)
    waits = sequence(prompt=100)
    waits.state = State.RUNNING
    owner.expect(waits)
    told = [owner.leaves_out(Draft(), [sequence(BATCH, generated=1)], 9.0, 0.0, starting=True) for _ in range(20)]
    assert told == ([True] * MOST_IN_A_ROW + [False]) * 2 + [True] * 2


@pytest.mark.parametrize(("policy", "waits"), [("three_tier", True), ("fcfs", False)])
def test_a_first_token_comes_before_batch_work_goes_on(policy, waits):
    """Batch replies cost more time than there is until the aim: they rest in place, and lose nothing."""
    times = known_times(step=0.01, decode=0.1, context=0.0, prefill=0.001)
    rig = Rig(policy=policy, pages=64, slots=4, step_tokens=32, prefill_chunk=32, times=times)
    batch = [make_request(f"b{index}", [index] * 4, 20, tier=BATCH) for index in range(2)]
    rig.add(*batch)
    for _ in range(4):
        rig.step()
    urgent = make_request("urgent", [9] * 40, 6, tier=REALTIME, arrived_s=rig.now)
    rig.add(urgent)
    before = sum(len(rig.got[request.id]) for request in batch)
    skipped = 0
    while "urgent" not in rig.got:
        skipped += rig.step().why["skipped"]
    drawn = sum(len(rig.got[request.id]) for request in batch) - before
    assert (drawn, skipped) == ((2, 4) if waits else (6, 0))
    assert rig.scheduler.roster.preemptions == 0
    rig.run()
    for request in [*batch, urgent]:
        assert tuple(rig.got[request.id]) == expected_ids(request)
        assert rig.advances[request.id][-1].sequence.finish is FinishReason.LENGTH
