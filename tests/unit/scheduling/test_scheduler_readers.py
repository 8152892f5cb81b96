"""Pauses, readers' clocks and the step times that steer for them, in the scheduler as a whole."""

from __future__ import annotations

import pytest

from andes_jax.request import FinishReason, QoeTarget
from andes_jax.scheduling.qoe import v2
from tests.fakes import Rig, expected_ids, make_request


def test_a_paused_request_rests_and_goes_on_where_it_was():
    rig = Rig(policy="three_tier")
    request, other = make_request("a", [1, 2, 3], 20), make_request("b", [4], 30)
    rig.add(request, other)
    for _ in range(6):
        rig.step()
    assert rig.scheduler.pause("a", rig.now) and not rig.scheduler.pause("unknown", rig.now)
    for _ in range(3):
        rig.step()
    got = len(rig.got["a"])
    for _ in range(10):
        rig.step()
    assert len(rig.got["a"]) == got and rig.running() == ["b"] and rig.scheduler.roster.live["a"].slot is None
    assert rig.scheduler.resume("a", rig.now) and not rig.scheduler.resume("unknown", rig.now)
    rig.run()
    assert tuple(rig.got["a"]) == expected_ids(request) and tuple(rig.got["b"]) == expected_ids(other)
    assert sum(part.count for plan in rig.runner.plans for part in plan.slices) == 3 + 19 + 1 + 29, "nothing twice"


def test_there_is_no_work_while_everybody_is_paused():
    rig = Rig()
    rig.add(make_request("a", [1, 2, 3], 5))
    rig.step()
    rig.scheduler.pause("a", 0.0)
    rig.commit()
    assert not rig.scheduler.has_work and rig.plan().slices == ()
    rig.add(make_request("b", [1], 5))
    rig.scheduler.pause("b", 0.0)
    assert not rig.scheduler.has_work
    for id in "ab":
        rig.scheduler.resume(id, 0.0)
    rig.run()


def test_a_paused_request_can_end():
    rig = Rig()
    rig.add(make_request("a", [1, 2, 3], 5))
    rig.step()
    rig.scheduler.pause("a", 0.0)
    assert rig.scheduler.cancel("a")
    rig.run()


def test_the_readers_lot_is_known_at_the_end():
    rig = Rig()
    sequence = rig.scheduler.add(make_request("a", [1, 2], 3, arrived_s=0.0, qoe=QoeTarget(1.0, 1.0)), 0.0)
    unread = rig.scheduler.add(make_request("b", [1], 2), 0.0)
    times_s = []
    for now in (2.0, 5.0, 9.0):
        rig.plan()
        rig.now = now
        rig.commit()
        times_s.append(now)
    assert sequence.qoe == pytest.approx(v2(times_s, QoeTarget(1.0, 1.0))) and 0 < sequence.qoe < 1
    assert unread.qoe is None and unread.finish is FinishReason.LENGTH


def test_step_times_are_learnt_from_steps_whose_length_is_known():
    rig = Rig(warmup_steps=1)
    rig.add(make_request("a", [1, 2], 9))
    for step_s in (0.25, None, 0.5):
        plan = rig.plan()
        rig.in_flight -= 1
        rig.scheduler.commit(rig.runner.collect(), rig.now, step_s)
        assert plan.slices
    assert rig.scheduler.times.seen == 2 and rig.scheduler.times.ready


def test_nobody_is_blamed_for_resting():
    """The engine ends the next in line when nothing can be planned; one that is paused is not to run."""
    rig = Rig(slots=1)
    rig.add(make_request("a", [1, 2, 3], 5), make_request("b", [1], 5))
    assert rig.scheduler.next_in_line().id in ("a", "b")
    for id in "ab":
        rig.scheduler.pause(id, 0.0)
    assert rig.scheduler.next_in_line() is None
    rig.scheduler.resume("b", 0.0)
    assert rig.scheduler.next_in_line().id == "b"
