"""andes-jax batch with the embedded model: killed again and again it ends in the rows of an undisturbed run."""

from __future__ import annotations

import json
import random
import subprocess
import time

import pytest

from tests.end_to_end.jobs import ROOT, cut_journal, finish, job_command, kill_once, records
from tests.end_to_end.server_process import SEQUENCES, assert_nothing_held, server_process

MODEL = "SmolLM2-135M-Instruct"


def write_calls(path, count, tokens):
    """Calls of both kinds and of many lengths, and every tenth line a bad one."""
    lines = []
    for number in range(count):
        limits = {"model": MODEL, "temperature": 0, "max_tokens": tokens + number % 7}
        if number % 10 == 4:
            lines.append("{bad")
            continue
        if number % 2:
            url, body = "/v1/completions", {"prompt": f"{number}, {number + 1}, {number + 2},"}
        else:
            url, body = "/v1/chat/completions", {"messages": [{"role": "user", "content": f"Say {number} in words."}]}
        lines.append(json.dumps({"custom_id": f"c{number}", "method": "POST", "url": url, "body": body | limits}))
    path.write_text("\n".join(lines) + "\n")


def command(path, folder, url):
    places = ["--output", folder / "output", "--errors", folder / "errors", "--job", folder / "job"]
    return job_command("batch", path, *places, "--server", url, "--patience", 60, "--parallel", SEQUENCES)


def rows(folder):
    """What must not differ: all but ids, times, and how much came from the prefix cache."""
    found = []
    for file in ("output", "errors"):
        for row in map(json.loads, (folder / file).read_text().splitlines()):
            body = (row["response"] or {}).get("body", {})
            usage = {each: body.get("usage", {}).get(each) for each in ("prompt_tokens", "completion_tokens")}
            found.append((file, row["id"], row["custom_id"], row["error"], body.get("choices"), usage))
    return found


def survive(tmp_path, url, count, tokens, kills, seed):
    """Kill a job again and again; returns how many of the kills hit it at work."""
    calls, undisturbed, disturbed = tmp_path / "calls.jsonl", tmp_path / "a", tmp_path / "b"
    for folder in (undisturbed, disturbed):
        folder.mkdir(exist_ok=True)
    write_calls(calls, count, tokens)
    assert finish(command(calls, undisturbed, url)) == 3
    choice, hits = random.Random(seed), 0
    for number in range(kills):
        hits += kill_once(command(calls, disturbed, url), disturbed / "job", choice, most_s=0.5)
        if number % 2:
            cut_journal(disturbed / "job", choice)
    assert finish(command(calls, disturbed, url)) == 3
    assert rows(disturbed) == rows(undisturbed) and len(rows(disturbed)) == count
    assert records(disturbed / "job") >= count - count // 10
    return hits


def test_a_killed_job_goes_on_to_the_same_rows(server, tmp_path):
    assert survive(tmp_path, server.url, count=12, tokens=6, kills=2, seed=1) >= 1
    assert_nothing_held(server.url)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills(server, tmp_path):
    hits = 0
    for part in range(5):
        (tmp_path / f"{part}").mkdir()
        hits += survive(tmp_path / f"{part}", server.url, count=60, tokens=12, kills=10, seed=part)
    print(f"{hits} of 50 kills hit a job at work")
    assert hits >= 40
    assert_nothing_held(server.url)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_a_server_the_rows_are_the_same(server, tmp_path):
    calls = tmp_path / "calls.jsonl"
    write_calls(calls, 20, 8)
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    finish(command(calls, tmp_path / "with", server.url))
    own = command(calls, tmp_path / "without", server.url)
    at = own.index("--server")
    finish([*own[:at], *own[at + 2 :], "--dtype", "float32"])
    assert rows(tmp_path / "with") == rows(tmp_path / "without")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_server_that_is_killed_and_comes_back_is_waited_for(tmp_path):
    calls = tmp_path / "calls.jsonl"
    write_calls(calls, 60, 24)
    with server_process() as first:
        port = first.port
        process = subprocess.Popen([*command(calls, tmp_path, first.url), "--patience", "240"], cwd=ROOT)
        while records(tmp_path / "job") < 5:
            assert process.poll() is None
            time.sleep(0.05)
        first.process.kill()
    done = records(tmp_path / "job")
    with server_process("--port", f"{port}"):
        assert process.wait(240) == 3
    assert len(rows(tmp_path)) == 60 and 5 <= done < 54
