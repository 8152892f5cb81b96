"""andes-jax summarize against a server, from the command line on."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.failure import UsageError
from andes_jax.request import Tier
from tests.server.live import live_server
from tests.server.parts import MODEL, mk_context, says


@pytest.fixture(scope="module")
def server():
    with live_server(mk_context(says("It rains."))) as running:
        yield running


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "short.txt").write_text("It has rained since Monday.")
    (folder / "long.md").write_text("\n\n".join(f"Paragraph {number} says that it rains. " * 4 for number in range(30)))
    (folder / "empty.txt").write_text("")
    return folder


def run(server, *arguments, stdin=None):
    return CliRunner().invoke(app, ["summarize", *map(str, arguments), "--server", server.url], input=stdin)


def rows(path):
    return [json.loads(row) for row in path.read_text().splitlines()]


def test_a_folder_becomes_rows_by_the_batch_tier(server, documents, tmp_path):
    asked = len(server.engine.submitted)
    output = tmp_path / "rows.jsonl"
    done = run(server, documents, "--output", output, "--words", "20", "--trace")
    assert done.exit_code == 3 and "2 summaries and 1 errors in" in done.stderr, done.output
    empty, long, short = rows(output)
    assert empty["error"]["code"] == "unreadable" and short["summary"] == long["summary"] == "It rains."
    assert short["chunks"] == 1 and long["chunks"] > 2 and len(long["notes"]) == long["chunks"]
    assert (short["model"], short["settings"]["words"]) == (MODEL, 20)
    requests = server.engine.submitted[asked:]
    assert {request.tier for request in requests} == {Tier.BATCH}
    assert {request.sampling.temperature for request in requests} == {0.0}
    again = run(server, documents, "--output", output, "--words", "20")
    assert "2 of them from earlier runs" in again.stderr and len(server.engine.submitted) == asked + len(requests)
    assert "notes" not in rows(output)[1]


def test_standard_input_and_what_is_asked_of_it(server, tmp_path):
    output = tmp_path / "new" / "page.md"
    options = ["--style", "bullets", "--lang", "zh", "--question", "Why?", "--quiet", "--context-tokens", "1500"]
    done = run(server, "-", "--output", output, *options, stdin="It rains, and nobody knows why.")
    assert (done.exit_code, done.output) == (0, ""), done.exception
    assert "## -\n\nIt rains." in output.read_text()
    prompt = bytes(server.engine.submitted[-1].prompt_ids).decode()
    assert "Why?" in prompt and "要点列表" in prompt


def test_a_dry_run_asks_for_no_summary_and_leaves_nothing(server, documents, tmp_path):
    before = sorted(tmp_path.iterdir())
    told = run(server, documents, "--output", tmp_path / "rows.jsonl", "--words", "20", "--dry-run")
    assert told.exit_code == 0, told.output
    assert "3 documents: 0 done, 1 that cannot be summarized" in told.stdout
    assert " chunks, by " in told.stdout and "at most 0:0" in told.stdout
    assert sorted(tmp_path.iterdir()) == before


def test_wrong_use_is_told_before_anything_begins(server, documents, tmp_path):
    for wrong in (
        [tmp_path / "nothing"],
        [documents, "--style", "poem"],
        [documents / "short.txt", "--output", documents / "short.txt"],
        [documents, "--chunk-tokens", "100"],
        [documents, "--server-model", "other"],
    ):
        assert isinstance(run(server, *wrong).exception, UsageError), wrong
