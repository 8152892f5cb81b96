"""Whom jobs ask, and how a run ends."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from andes_jax.commands.job_options import JobOptions
from andes_jax.commands.job_run import SERVER_PARALLEL, connection, run_job, time_words
from andes_jax.config import load_config
from andes_jax.jobs.client import ServerLost
from andes_jax.jobs.estimate import Pace
from andes_jax.jobs.tally import Tally
from tests.server.live import live_server
from tests.server.parts import MODEL, mk_context


def options(url, parallel=None, patience_s=5.0):
    return JobOptions(url, None, None, parallel, patience_s, "nothing")


@pytest.fixture
def config():
    return load_config(environ={})


def test_a_job_gets_the_server_its_model_and_a_number_of_calls(config):
    seen = []

    async def job(client, model, at_once):
        seen.append((model.name, model.native, at_once))

    with live_server(mk_context()) as server:
        run_job(config, options(server.url), Tally(), job)
        run_job(config, options(server.url, parallel=3), Tally(), job)
    assert seen == [(MODEL, True, SERVER_PARALLEL), (MODEL, True, 3)]


def test_a_server_that_is_not_there_is_lost_after_the_patience(config):
    async def job(client, model, at_once):
        raise AssertionError("there is no server")

    with pytest.raises(ServerLost, match="cannot be reached"):
        run_job(config, options("http://127.0.0.1:9", patience_s=0.0), Tally(), job)


@pytest.mark.parametrize(("number", "ended"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_signals_end_a_run_and_say_how_to_go_on(config, capsys, number, ended):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = Tally(total=5, done=2)

    async def job(client, model, at_once):
        threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
        await asyncio.sleep(30)

    began = time.monotonic()
    try:
        with live_server(mk_context()) as server, pytest.raises(ended):
            run_job(config, options(server.url), tally, job)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 20
    assert "stopped with 2 of 5 done; the same command goes on" in capsys.readouterr().err


def test_no_engine_is_built_for_a_server(config):
    with connection(config, options("http://127.0.0.1:9/v1")) as whom:
        assert whom.http.base_url.port == 9
        asyncio.run(whom.http.aclose())


def test_times_in_words():
    assert time_words(Pace(100.0, 10.0), 1000, 500).startswith("at most 0:01:00 at 100 prompt and 10 reply")
