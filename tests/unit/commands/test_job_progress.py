"""What is shown of a job, on a terminal, in a log and to a program."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from andes_jax.commands import job_progress
from andes_jax.commands.job_progress import show_tally, words
from andes_jax.jobs.tally import Tally


def worked(tally: Tally) -> None:
    tally.called({"prompt_tokens": 30, "completion_tokens": 10})
    tally.finished(error=True)
    tally.waits_for("the server is away")


def test_words_say_pace_errors_rest_and_trouble():
    now = [0.0]
    tally = Tally(total=4, clock=lambda: now[0])
    now[0] = 2.0
    assert words(tally) == "0 tokens/s"
    worked(tally)
    assert words(tally) == "20 tokens/s, 1 errors, 0:00:06 left, waiting: the server is away"


def test_programs_get_lines_of_json(monkeypatch):
    monkeypatch.setattr(job_progress, "JSON_EVERY_S", 0.0)
    out = io.StringIO()
    tally = Tally(total=2)
    with show_tally(tally, "json", out):
        worked(tally)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) == 4 and lines[-1]["trouble"] == "the server is away"
    assert (lines[-1]["done"], lines[-1]["total"], lines[-1]["errors"]) == (1, 2, 1)
    worked(tally)
    assert len(out.getvalue().splitlines()) == 4, "nothing is shown after the block"


def test_a_log_gets_a_line_now_and_then_and_at_troubles():
    out = io.StringIO()
    tally = Tally()
    with show_tally(tally, "bar", out):
        tally.finished(error=False)
        assert out.getvalue() == ""
        tally.waits_for("full")
    assert out.getvalue().count("1 of ?: ") == 2 and "waiting: full" in out.getvalue()


def test_nothing_is_nothing():
    out = io.StringIO()
    tally = Tally()
    with show_tally(tally, "nothing", out):
        worked(tally)
    assert out.getvalue() == ""


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch):
    monkeypatch.setattr(job_progress, "Console", lambda file: Console(file=file, force_terminal=True, width=100))
    out = io.StringIO()
    tally = Tally(total=3)
    with pytest.raises(KeyError), show_tally(tally, "bar", out):
        worked(tally)
        raise KeyError
    assert "1/3" in out.getvalue() and "1 errors" in out.getvalue()
