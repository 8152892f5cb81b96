"""andes-jax bench on the real front end around an engine that says what it is told, and its flags."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.failure import UserError
from andes_jax.loadtest.record import read_run
from andes_jax.request import Tier
from tests.server.live import LiveServer, live_server
from tests.server.parts import mk_context
from tests.server.waiting import wait_for

TOKENS = [(0.0, 20, 5), (0.1, 30, 4), (0.2, 40, 6), (0.25, 9, 1), (9.0, 5, 5)]


@pytest.fixture
def trace(tmp_path) -> Path:
    path = tmp_path / "trace.csv"
    rows = "".join(f"{arrived_s},{prompt},{output}\n" for arrived_s, prompt, output in TOKENS)
    path.write_text("arrived_s,prompt_tokens,output_tokens\n" + rows)
    return path


def bench(server: LiveServer, *arguments: Any):
    """The command against a server; ids inside the fake's vocabulary of bytes."""
    words = ["bench", "--url", server.url, "--token-ids", "32:250", *map(str, arguments)]
    return CliRunner().invoke(app, words)


def figures(server: LiveServer, *arguments: Any) -> dict[str, Any]:
    result = bench(server, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return orjson.loads(result.stdout)


def test_what_was_asked_for_is_what_is_sent_and_measured(trace, tmp_path):
    with live_server(mk_context(gap_s=0.02)) as server:
        found = figures(server, "--trace", trace, "--end", 5, "--output", tmp_path / "run.jsonl")
        assert server.counts() == {"requests": 0, "calls": 0, "engine": 0, "streams": 0}
        probe, *sent = server.engine.submitted
    assert len(probe.prompt_ids) == 4
    asked = sorted((len(request.prompt_ids), request.sampling.max_tokens) for request in sent)
    assert asked == sorted((prompt, output) for _, prompt, output in TOKENS[:4])
    assert len({request.prompt_ids[:4] for request in sent}) == 4
    assert all(not request.sampling.stop_ids for request in sent)
    everything = found["tiers"]["all"]
    assert (everything["requests"], everything["finished"], found["unsent"], found["short"]) == (4, 4, 0, 0)
    assert everything["tokens_per_s"] * found["duration_s"] == pytest.approx(16)
    run = read_run(tmp_path / "run.jsonl")
    assert [len(record.outcome.token_times_s) for record in run.records] == [5, 4, 6, 1]
    assert [record.prompt_tokens for record in run.records] == [20, 30, 40, 9]
    # A step takes 20 ms, and the first may have begun before the request came.
    assert all(outcome.latency_s >= 0.02 * (len(outcome.token_times_s) - 1) for outcome in run.outcomes)


def test_tiers_and_readers_reach_the_engine(trace):
    with live_server(mk_context()) as server:
        found = figures(server, "--trace", trace, "--rate", 20, "--tiers", "realtime=0.5,batch=0.5", "--readers", 7)
        sent = server.engine.submitted[1:]
    assert set(found["tiers"]) == {"all", "realtime", "batch"}
    assert {request.tier for request in sent} == {Tier.REALTIME, Tier.BATCH}
    speeds = {request.qoe.tokens_per_s for request in sent if request.tier is Tier.REALTIME}
    assert speeds == {7.0}
    assert all(request.qoe is None for request in sent if request.tier is Tier.BATCH)


def test_what_does_not_fit_the_server_is_left_out_and_said(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("arrived_s,prompt_tokens,output_tokens\n0,5,5\n0,5000,5\n")
    with live_server(mk_context()) as server:
        result = bench(server, "--trace", path)
    assert result.exit_code == 0 and "1 of 2 requests have more than 2048 tokens" in result.stderr
    assert re.search(r"^requests +1 +1", result.stdout, re.MULTILINE)


def test_refusals_are_no_failures(trace):
    with live_server(mk_context(gap_s=0.2, max_waiting=1)) as server:
        found = figures(server, "--trace", trace, "--end", 1, "--rate", 10)
    assert (found["tiers"]["all"]["finished"], found["tiers"]["all"]["refused"]) == (1, 3)


def test_failures_are_counted_and_make_the_exit_code(trace, tmp_path):
    with live_server(mk_context()) as server:
        server.engine.fails = lambda request: len(request.prompt_ids) == 30
        result = bench(server, "--trace", trace, "--end", 1, "--output", tmp_path / "run.jsonl")
    assert result.exit_code == 1
    assert re.search(r"^failed +1 +1", result.stdout, re.MULTILINE) and "1 times: the step failed" in result.stdout
    finishes = [outcome.finish for outcome in read_run(tmp_path / "run.jsonl").outcomes]
    assert finishes == ["length", "failed", "length", "length"]


def test_readers_who_leave_end_their_generation(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("arrived_s,prompt_tokens,output_tokens\n" + "0,5,400\n" * 6)
    with live_server(mk_context(gap_s=0.05)) as server:
        # Read at 400 tokens/s, a reply is over in 2 s, and its reader gone by then; the server needs 20 s.
        found = figures(server, "--trace", path, "--cancel-share", 1, "--readers", 400)
        assert wait_for(lambda: not server.engine.live)
    everything = found["tiers"]["all"]
    assert everything["interrupted"] + everything["cancelled"] == 6 and found["duration_s"] < 4


def test_lengths_alone_with_drawn_arrivals(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("prompt_tokens,output_tokens\n5,2\n7,3\n")
    with live_server(mk_context()) as server:
        found = figures(server, "--trace", path, "--arrivals", "poisson", "--rate", 40, "--duration", 0.5)
    assert 5 < found["tiers"]["all"]["finished"] < 50


def test_a_table_side_by_side(trace, tmp_path):
    with live_server(mk_context()) as server:
        assert bench(server, "--trace", trace, "--end", 1, "--output", tmp_path / "a.jsonl").exit_code == 0
    files = [str(tmp_path / "a.jsonl")] * 2
    result = CliRunner().invoke(app, ["bench", "--compare", *files])
    assert result.exit_code == 0 and re.search(r"^all +requests +4 +4 +1\.000", result.stdout, re.MULTILINE)


def test_a_picture(trace, tmp_path):
    pytest.importorskip("matplotlib")
    with live_server(mk_context()) as server:
        assert bench(server, "--trace", trace, "--end", 1, "--plot", tmp_path / "run.png").exit_code == 0
    assert (tmp_path / "run.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--trace"),
        (["--trace", "absent.csv"], "absent.csv"),
        (["--url", "ftp://x"], "no address"),
        (["--arrivals", "weekly"], "poisson"),
        (["--tiers", "gold=1"], "realtime"),
        (["--readers", "quick"], "paper"),
        (["--token-ids", "5"], "LOW:HIGH"),
        (["--rate", "0"], "rate"),
        (["--end", "1"], "no server answers"),
    ],
)
def test_one_line_says_what_is_wrong(trace, arguments: list[str], words: str, closed_port: Callable[[], int]):
    if arguments and "--trace" not in arguments:
        arguments = ["--trace", str(trace), *arguments]
    if "--url" not in arguments:
        arguments = [*arguments, "--url", f"http://127.0.0.1:{closed_port()}"]
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert isinstance(result.exception, UserError) and words in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.fixture
def closed_port() -> Callable[[], int]:
    def port() -> int:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            return taken.getsockname()[1]

    return port
