"""andes-jax batch against a server, from the command line on."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.failure import UsageError
from andes_jax.request import Tier
from tests.server.live import live_server
from tests.server.parts import MODEL, chat, completion, mk_context, says


def line(name, body, url="/v1/completions"):
    return json.dumps({"custom_id": name, "method": "POST", "url": url, "body": body})


@pytest.fixture(scope="module")
def server():
    with live_server(mk_context(says("Yes."))) as running:
        yield running


@pytest.fixture
def calls(tmp_path):
    """Two calls, one in each dialect, and three errors of three kinds."""
    path = tmp_path / "calls.jsonl"
    lines = [
        line("plain", completion("a")),
        line("talk", chat("b"), "/v1/chat/completions"),
        "no json",
        line("elsewhere", {}, "/v1/embeddings"),
        line("wrong", completion("a", max_tokens=-1)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(server, *arguments):
    return CliRunner().invoke(app, ["batch", *map(str, arguments), "--server", server.url])


def rows(path):
    return [json.loads(row) for row in path.read_text().splitlines()]


def test_replies_and_errors_in_openais_format(server, calls):
    asked = len(server.engine.submitted)
    done = run(server, calls)
    assert done.exit_code == 3, done.output
    assert "2 replies in" in done.stderr and "3 errors in" in done.stderr
    good, bad = rows(calls.with_name("calls.output.jsonl")), rows(calls.with_name("calls.errors.jsonl"))
    assert [row["custom_id"] for row in good] == ["plain", "talk"]
    for row in good:
        assert row["error"] is None and row["response"]["status_code"] == 200 and row["response"]["request_id"]
    assert good[1]["response"]["body"]["choices"][0]["message"]["content"] == "Yes."
    assert [row["custom_id"] for row in bad] == [None, "elsewhere", "wrong"]
    assert bad[1]["response"] is None and bad[1]["error"]["code"] == "invalid_url"
    assert bad[2]["response"]["status_code"] == 400 and bad[2]["response"]["body"]["error"]["param"] == "max_tokens"
    assert {request.tier for request in server.engine.submitted[asked:]} == {Tier.BATCH}

    again = run(server, calls)
    assert again.exit_code == 3 and "3 of them from earlier runs" in again.stderr
    assert rows(calls.with_name("calls.output.jsonl")) == good and len(server.engine.submitted) == asked + 2


def test_places_can_be_named_and_silence_asked_for(server, calls, tmp_path):
    calls.write_text(line("a", completion("a")) + "\n")
    places = ["--output", tmp_path / "new" / "o", "--errors", tmp_path / "e", "--job", tmp_path / "j"]
    done = run(server, calls, *places, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert (
        len(rows(tmp_path / "new" / "o")) == 1 and rows(tmp_path / "e") == [] and (tmp_path / "j" / "journal").exists()
    )
    told = run(server, calls, *places, "--progress", "json")
    assert json.loads(told.stderr.splitlines()[-1])["resumed"] == 1


def test_a_dry_run_asks_for_no_reply_and_leaves_nothing(server, calls, tmp_path):
    before = sorted(tmp_path.iterdir())
    told = run(server, calls, "--dry-run")
    assert told.exit_code == 0, told.output
    assert "5 lines: 3 calls to make, 0 done, 2 that are no calls" in told.stdout
    assert "tokens: " in told.stdout and "at most 0:0" in told.stdout
    assert sorted(tmp_path.iterdir()) == before
    run(server, calls)
    assert "0 calls to make, 3 done" in run(server, calls, "--dry-run").stdout


def test_wrong_use_is_told_before_anything_begins(server, tmp_path, calls):
    assert isinstance(run(server, tmp_path / "nothing").exception, UsageError)
    assert isinstance(run(server, calls, "--output", calls).exception, UsageError)
    assert isinstance(run(server, calls, "--server-model", "other").exception, UsageError)
    assert MODEL in str(run(server, calls, "--server-model", "other").exception)
