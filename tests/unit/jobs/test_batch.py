"""Runs over a batch file: one row a line, and nothing is asked for twice."""

from __future__ import annotations

import json

import pytest

from andes_jax.jobs.batch import BatchRun
from andes_jax.jobs.client import Reply, ServerLost
from andes_jax.jobs.folder import open_job
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.tally import Tally
from tests.unit.jobs.parts import Waits


def call(name, prompt=None):
    body = {"prompt": prompt or f"say {name}"}
    return json.dumps({"custom_id": name, "method": "POST", "url": "/v1/completions", "body": body})


class Echo:
    """Answers with the prompt; `fails` says how for some of them."""

    def __init__(self, **fails) -> None:
        self.fails = fails
        self.asked: list[str] = []

    async def post(self, path, body):
        word = body["prompt"].split()[-1]
        self.asked.append(word)
        if word in self.fails:
            if isinstance(self.fails[word], Exception):
                raise self.fails[word]
            return Reply(self.fails[word], {"error": {"message": "no"}}, "")
        return Reply(200, {"text": word}, f"req-{word}")


@pytest.fixture
def run(tmp_path):
    """One run over these lines; the rows of both files and the tally."""

    async def over(lines, client, at_once=2):
        path, output, errors = (tmp_path / name for name in ("calls.jsonl", "output", "errors"))
        path.write_text("\n".join(lines) + "\n")
        tally = Tally()
        with open_job(tmp_path / "job", {"kind": "batch"}) as journal:
            batch = BatchRun(path, journal, Keeper(journal, Waits().patience, tally.waits_for), tally)
            await batch.run(client, at_once)
            counts = batch.write(output, errors)
        rows = [[json.loads(line) for line in file.read_text().splitlines()] for file in (output, errors)]
        assert counts == (len(rows[0]), len(rows[1]))
        return *rows, tally

    return over


def names(rows):
    return [row["custom_id"] for row in rows]


async def test_every_line_becomes_one_row_in_the_order_of_lines(run):
    client = Echo(bad=400)
    lines = [call("a"), "{", call("bad"), "", call("b"), call("a", "say other")]
    good, bad, tally = await run(lines, client)
    assert names(good) == ["a", "b"] and [row["response"]["body"]["text"] for row in good] == ["a", "b"]
    assert names(bad) == [None, "bad", "a"]
    assert [row["error"] and row["error"]["code"] for row in bad] == ["invalid_json_line", None, "duplicate_custom_id"]
    assert sorted(client.asked) == ["a", "b", "bad"], "the second of one name is not asked"
    assert (tally.total, tally.done, tally.errors, tally.resumed) == (5, 5, 3, 0)


async def test_a_run_goes_on_by_name_wherever_the_lines_are(run):
    lines = [call(name) for name in "abcdef"]
    first = Echo(d=ServerLost("gone"))
    with pytest.raises(ServerLost):
        await run(lines, first, at_once=1)
    assert first.asked == ["a", "b", "c", "d"]
    second = Echo()
    good, bad, tally = await run([call("new"), *reversed(lines)], second, at_once=3)
    assert sorted(second.asked) == ["d", "e", "f", "new"]
    assert names(good) == ["new", *"fedcba"] and bad == [] and tally.resumed == 3
    third = Echo()
    assert (await run(lines, third))[0] == list(reversed(good[1:])) and third.asked == []


async def test_a_line_that_has_changed_is_asked_again(run):
    await run([call("a"), call("b")], Echo())
    again = Echo()
    good, _, _ = await run([call("a", "say else"), call("b")], again)
    assert again.asked == ["else"] and [row["response"]["body"]["text"] for row in good] == ["else", "b"]


async def test_faults_of_the_server_get_another_chance_and_errors_of_the_call_none(run):
    lines = [call("a"), call("b")]
    _, bad, _ = await run(lines, Echo(a=500, b=400))
    assert names(bad) == ["a", "b"]
    again = Echo()
    good, bad, tally = await run(lines, again)
    assert again.asked == ["a"] and names(good) == ["a"] and names(bad) == ["b"] and tally.errors == 1
