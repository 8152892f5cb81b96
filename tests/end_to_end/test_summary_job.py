"""andes-jax summarize with the embedded model: killed again and again it ends in the rows of an undisturbed run."""

from __future__ import annotations

import json
import random

import pytest

from tests.end_to_end.jobs import ROOT, cut_journal, finish, job_command, kill_once, records
from tests.end_to_end.server_process import SEQUENCES, assert_nothing_held

SAMPLES = ROOT / "examples" / "documents"


def command(sources, folder, url):
    cuts = ["--words", 8, "--style", "headline", "--chunk-tokens", 128, "--chunk-overlap", 16, "--trace"]
    places = ["--output", folder / "rows.jsonl", "--server", url, "--parallel", SEQUENCES, "--patience", 60]
    return job_command("summarize", *sources, *places, *cuts)


def rows(folder):
    """What must not differ: all but the time."""
    lines = map(json.loads, (folder / "rows.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if key != "seconds"} for row in lines]


def survive(tmp_path, url, sources, kills, seed, most_s=1.0):
    """Kill a job again and again; its rows, and how many of the kills hit it at work."""
    undisturbed, disturbed = tmp_path / "a", tmp_path / "b"
    for folder in (undisturbed, disturbed):
        folder.mkdir(parents=True)
    finish(command(sources, undisturbed, url))
    choice, hits, job = random.Random(seed), 0, disturbed / "rows.job"
    for number in range(kills):
        hits += kill_once(command(sources, disturbed, url), job, choice, most_s)
        if number % 2:
            cut_journal(job, choice)
    finish(command(sources, disturbed, url))
    assert rows(disturbed) == rows(undisturbed)
    assert records(job) == records(undisturbed / "rows.job"), "nothing was asked for twice"
    return rows(disturbed), hits


def test_a_killed_job_ends_in_the_same_summaries(server, tmp_path):
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"no pdf")
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"On day {day} the river rose by {day % 5} centimetres." for day in range(18)))
    found, hits = survive(tmp_path, server.url, [text, broken], kills=1, seed=1, most_s=0.3)
    summed, unreadable = found
    assert unreadable["error"]["code"] == "unreadable" and summed["error"] is None
    assert summed["summary"] and summed["chunks"] == len(summed["notes"]) > 1
    assert hits == 1
    assert_nothing_held(server.url)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills(server, tmp_path):
    _, hits = survive(tmp_path, server.url, [SAMPLES], kills=20, seed=2)
    print(f"{hits} of 20 kills hit a job at work")
    assert hits >= 10
    assert_nothing_held(server.url)
