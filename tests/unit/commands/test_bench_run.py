"""Ctrl-C during a run, and its bar on a terminal."""

from __future__ import annotations

import io
import os
import re
import signal
import threading

import pytest
import typer
from rich.console import Console

from andes_jax.commands import bench_run
from andes_jax.commands.bench_run import Measurement, finish
from andes_jax.loadtest.prompts import Prompts
from andes_jax.loadtest.replay import Counts
from andes_jax.workload.arrivals import Workload
from andes_jax.workload.traces import TraceRow
from tests.server.live import live_server
from tests.server.parts import mk_context
from tests.server.waiting import wait_for


async def test_ctrl_c_ends_a_run_with_what_was_measured(capsys):
    rows = [TraceRow(0.0, 5, 3), TraceRow(0.1, 5, 1000), TraceRow(60.0, 5, 3)]
    with live_server(mk_context(gap_s=0.02)) as server:
        task = Measurement(server.url, rows, Workload(), Prompts(1, 32, 250), drain_s=60.0)

        def interrupt() -> None:
            wait_for(lambda: len(server.engine.submitted) == 3 and len(server.engine.live) == 1)  # the long one alone
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        run = await task.measure(model=None, api_key=None, andes=None)
        assert wait_for(lambda: not server.engine.live)
    assert task.stopped and run.unsent == 1
    assert [outcome.finish for outcome in run.outcomes] == ["length", "unfinished"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(typer.Exit) as ended:
        finish(run, output=None, plot=None, as_json=False, stopped=task.stopped)
    assert ended.value.exit_code == 130
    shown = capsys.readouterr().out
    assert re.search(r"^unfinished +1", shown, re.MULTILINE) and "1 requests were not sent" in shown


def test_the_bar_shows_live_counts(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(bench_run, "Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    with bench_run._live_counts(10) as show:
        for _ in range(bench_run._TICKS_SHOWN):
            show(Counts(requests=10, sent=7, ended={"length": 4, "failed": 1}))
    assert "5/10" in screen.getvalue() and "2 under way, 1 failed, 4 length" in screen.getvalue()


def test_no_bar_where_there_is_no_terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(bench_run, "Console", lambda **_: Console(file=screen))
    with bench_run._live_counts(10) as show:
        for _ in range(bench_run._TICKS_SHOWN):
            show(Counts(sent=1))
    assert screen.getvalue() == ""
