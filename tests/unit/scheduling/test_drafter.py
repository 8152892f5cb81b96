from __future__ import annotations

from andes_jax.request import QoeTarget, Tier
from tests.fakes import Rig, expected_ids, make_request
from tests.unit.scheduling.parts import known_times

REALTIME, STREAMING, BATCH = Tier


def test_running_replies_come_first_then_begun_prompts_then_newcomers():
    rig = Rig(slots=3, step_tokens=12, prefill_chunk=8)
    requests = [make_request("draws", [1], 20), make_request("reads", [2] * 20, 4), make_request("new", [3] * 9, 4)]
    rig.add(requests[0])
    rig.step()
    rig.add(requests[1])
    rig.step()
    rig.add(requests[2])
    plan = rig.plan()
    assert [(part.slot, part.count) for part in plan.slices] == [(0, 1), (1, 8), (2, 3)]
    rig.commit()
    rig.run()
    for request in requests:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_what_goes_before_a_begun_prompt_takes_its_tokens_first():
    rig = Rig(policy="three_tier", slots=2, step_tokens=10, prefill_chunk=10)
    rig.add(make_request("batch", [1] * 30, 4, tier=BATCH))
    rig.step()
    rig.add(make_request("urgent", [2] * 8, 4, tier=REALTIME))
    plan = rig.step()
    assert [(part.slot, part.count) for part in plan.slices] == [(1, 8), (0, 2)]
    rig.run()


def test_who_was_left_out_for_one_that_cannot_start_goes_on():
    """The newcomer's prompt needs more pages than there are, and batch work that came back keeps its own for now."""
    times = known_times(step=0.01, decode=0.1, prefill=0.1)
    rig = Rig(policy="three_tier", slots=2, pages=13, page_tokens=4, prefix=False, times=times)
    batch = make_request("batch", [1] * 20, 20, tier=BATCH)
    rig.add(batch)
    for _ in range(4):
        rig.step()
    rig.scheduler.roster.running[0].sheltered_until = 99
    urgent = make_request("urgent", [2] * 30, 4, tier=REALTIME)
    rig.add(urgent)
    for _ in range(5):
        assert len(rig.step().slices) == 1 and rig.running() == ["batch"]
    rig.scheduler.roster.running[0].sheltered_until = 0
    rig.run()
    assert [tuple(rig.got[each.id]) for each in (batch, urgent)] == [expected_ids(batch), expected_ids(urgent)]


def test_prompts_are_paced_so_that_realtime_readers_keep_up():
    """At 1 ms a token a step of 200 prompt tokens would last two readers' paces."""
    steps_s = []
    for policy in ("three_tier", "fcfs"):
        rig = Rig(
            policy=policy, times=known_times(step=0.01, prefill=0.001), step_tokens=256, prefill_chunk=256, pages=200,
            max_model_len=512,
        )  # fmt: skip
        rig.add(make_request("reader", [1], 40, tier=Tier.REALTIME, qoe=QoeTarget(0.1, 10.0)))
        rig.plan()
        rig.now += 0.05
        rig.commit()
        rig.add(make_request("long", [2] * 400, 2, tier=Tier.STREAMING))
        while rig.scheduler.has_work and "long" in rig.scheduler.roster.live:
            plan = rig.plan()
            steps_s.append(0.01 + 0.001 * sum(part.count for part in plan.slices if part.count > 1))
            rig.now += steps_s[-1]
            rig.commit()
        reader = rig.scheduler.roster.live["reader"]
        assert rig.scheduler.ledger.slack_s(reader, rig.now) >= -1e-6, "never behind"
        rig.run()
    assert max(steps_s) <= 0.2 and max(steps_s) > 0.05


def test_batch_prompts_leave_room_for_who_may_come():
    """A twentieth of 2 s, less the step's 10 ms, at 1 ms a token: for ten seconds after the last reader came."""
    counts = {}
    for waited_s in (9.0, 11.0):
        rig = Rig(
            policy="three_tier", times=known_times(step=0.01, prefill=0.001), step_tokens=256, prefill_chunk=256,
            pages=200, max_model_len=512, realtime_aim_s=2.0,
        )  # fmt: skip
        rig.add(make_request("reader", [1], 1, tier=Tier.REALTIME, qoe=QoeTarget(1.0, 5.0)))
        rig.run()
        rig.now = waited_s
        rig.add(make_request("batch", [2] * 200, 2, tier=Tier.BATCH, arrived_s=waited_s))
        counts[waited_s] = rig.plan().tokens
    assert 80 <= counts[9.0] <= 90
    assert counts[11.0] == 200, "nobody is expected any more"
