from __future__ import annotations

from andes_jax.profiling.steps import KEPT, StepHistory, StepNote, watch_steps
from tests.fakes import Rig, make_request


def note(began_s: float, ended_s: float, *ids: str, prompt_tokens: int = 0) -> StepNote:
    return StepNote(began_s, ended_s, frozenset(ids), len(ids), prompt_tokens)


def history(*notes: StepNote) -> StepHistory:
    made = StepHistory()
    for each in notes:
        made.add(each)
    return made


def test_the_time_between_tokens_is_that_of_steps_with_and_without_the_request():
    steps = history(note(0, 1, "a"), note(1, 3, "b"), note(3, 4, "a", "b"))
    assert steps.gap("a", 1.0, 4.0) == (1.0, 2.0, note(3, 4, "a", "b"))
    assert steps.gap("b", 1.0, 4.0) == (3.0, 0.0, note(1, 3, "b"))
    assert steps.gap("c", 0.0, 4.0) == (0.0, 4.0, None)


def test_steps_count_as_far_as_they_lie_in_the_gap():
    steps = history(note(0, 4, "a"), note(4, 8, "a"))
    assert steps.gap("a", 1.0, 6.0)[:2] == (5.0, 0.0)
    assert steps.gap("a", 4.0, 4.0)[:2] == (0.0, 0.0), "two tokens of one step"


def test_what_lies_too_far_back_is_waiting():
    steps = history(*[note(index, index + 1, "a") for index in range(KEPT + 10)])
    working, waiting, _ = steps.gap("a", 0.0, float(KEPT + 10))
    assert (working, waiting) == (float(KEPT), 10.0)


def test_a_scheduler_tells_of_each_step_what_was_in_it():
    rig, told = Rig(step_tokens=8, prefill_chunk=8), []
    watch_steps(rig.scheduler, told.append)
    rig.add(make_request("a", [1] * 12, 2), make_request("b", [2], 2))
    rig.now = 5.0
    rig.plan()
    rig.commit()  # without a duration, as after a restart: nothing is learnt from it
    assert told == []
    plan = rig.plan()
    rig.scheduler.commit(rig.runner.collect(), 7.0, 0.5)
    (only,) = told
    assert (only.began_s, only.ended_s) == (6.5, 7.0) and only.request_ids == {"a", "b"}
    assert only.decodes + only.prompt_tokens == sum(part.count for part in plan.slices)
