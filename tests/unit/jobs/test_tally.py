"""Counts of a run and what follows from them."""

from __future__ import annotations

from andes_jax.jobs.tally import Tally


def test_pace_and_rest_count_this_run_alone():
    now = [-50.0]
    tally = Tally(total=10, clock=lambda: now[0])
    now[0] = 0.0
    tally.begin()
    assert tally.left_s is None
    tally.finished(error=False, resumed=True)
    assert tally.left_s is None, "what earlier runs did says nothing of the pace"
    now[0] = 4.0
    tally.called({"prompt_tokens": 30, "completion_tokens": 10})
    tally.called({"prompt_tokens": None})
    tally.finished(error=False)
    tally.finished(error=True)
    assert (tally.done, tally.resumed, tally.errors, tally.calls) == (3, 1, 1, 2)
    assert (tally.tokens_per_s, tally.left_s) == (10.0, 14.0)
    known = {"total": 10, "done": 3, "resumed": 1, "errors": 1, "calls": 2, "prompt_tokens": 30, "left_s": 14.0}
    assert known.items() <= tally.as_json().items()


def test_changes_are_told_and_a_trouble_once():
    told = []
    tally = Tally(on_change=lambda changed: told.append((changed.done, changed.trouble)))
    tally.finished(error=False)
    tally.waits_for("full")
    tally.waits_for("full")
    tally.waits_for(None)
    assert told == [(1, None), (1, "full"), (1, None)]
