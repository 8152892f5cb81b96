from __future__ import annotations

import pytest

from andes_jax.profiling.causes import SendTimes, cause_of_generation, cause_of_send, cause_of_wait
from andes_jax.profiling.steps import StepNote
from andes_jax.profiling.summary import kind
from andes_jax.request import Tier
from tests.fakes import Rig, make_request


@pytest.mark.parametrize(
    ("decodes", "prompt_tokens", "copied_pages", "words"),
    [
        (3, 0, 0, "replies in the step: 3"),
        (3, 64, 0, "64 tokens beside 3"),
        (3, 64, 8, "pages were copied in the step: 8"),
    ],
)
def test_a_long_step_is_explained_by_what_was_in_it(decodes, prompt_tokens, copied_pages, words):
    assert words in cause_of_generation(StepNote(0.0, 1.0, frozenset(), decodes, prompt_tokens, copied_pages))


def test_without_steps_nothing_is_known():
    assert cause_of_generation(None) == cause_of_wait(None, 0.0, 1.0) == "not known"


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (SendTimes(0.09, 0.01, 0.0, 0.0, 0.0), "event loop was busy: 90 ms"),
        (SendTimes(0.01, 0.08, 0.0, 0.0, 0.0), "as when the client reads slowly: 80 ms"),
        (SendTimes(0.01, 0.0, 0.0, 0.07, 0.0), "as when the client reads slowly: 70 ms"),
        (SendTimes(0.01, 0.04, 0.05, 0.04, 0.0), "as when the client reads slowly: 80 ms"),
        (SendTimes(0.01, 0.0, 0.06, 0.0, 0.0), "held back for a larger chunk: 60 ms"),
        (SendTimes(0.09, 0.0, 0.0, 0.0, 0.05), "garbage collection: 50 ms"),
    ],
)
def test_a_late_send_is_explained_by_where_most_of_its_time_went(times, words):
    assert words in cause_of_send(times)


def test_a_wait_is_explained_by_what_the_engine_says():
    rig = Rig(policy="three_tier", slots=1)
    rig.add(make_request("batch", [1] * 4, 30, tier=Tier.BATCH))
    for _ in range(3):
        rig.step()
    rig.now = 2.0
    rig.add(make_request("urgent", [2], 2, arrived_s=2.0))
    rig.step()
    explain = rig.scheduler.journal.explain
    assert cause_of_wait(explain("batch"), 1.0, 3.0) == "preempted: for urgent"
    assert kind("preempted: for urgent") == "preempted"
    rig.add(make_request("next", [3], 2, arrived_s=2.0))
    rig.step()
    rig.now = 4.0
    rig.step()
    assert cause_of_wait(explain("next"), 0.0, 2.0).startswith("waited for a slot: ")
    rig.scheduler.pause("batch", 5.0)
    assert "unread" in cause_of_wait(explain("batch"), 2.5, 6.0)
    rig.scheduler.resume("batch", 6.0)
    rig.run()
    assert cause_of_wait(explain("urgent"), 50.0, 60.0).startswith("steps without it")
