from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.profiling.chunk import Chunk


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "server.log"
    causes = {"send": "the event loop was busy: 60 ms"}
    chunks = [Chunk(0.1 * index, "chat-1", "realtime", 90, 1, 20.0, 0.2, 70.0, causes) for index in range(4)]
    path.write_text("".join(f"INFO andes_jax.stream: {chunk.line()}\n" for chunk in chunks))
    return path


def test_the_table_names_intervals_bounds_and_causes(log):
    shown = CliRunner().invoke(app, ["profile-stream", str(log)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for words in ("generation", "send", "wait", "4 (100.0%) of 50 ms", "the event loop was busy (4)"):
        assert words in shown.output


def test_json_and_the_picture(log, tmp_path):
    shown = CliRunner().invoke(app, ["profile-stream", str(log), "--json", "--plot", str(tmp_path / "a.png")])
    assert shown.exit_code == 0, shown.output
    (summary,) = json.loads(shown.output)
    assert summary["chunks"] == 4 and summary["intervals"][1]["broke"] == 4
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_log_without_chunks_says_what_to_do(tmp_path):
    path = tmp_path / "server.log"
    path.write_text("ready\n")
    shown = CliRunner().invoke(app, ["profile-stream", str(path)])
    assert shown.exit_code != 0 and "--profile-streaming" in str(shown.exception)
