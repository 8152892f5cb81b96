"""Calls and tokens that are left of a batch file."""

from __future__ import annotations

import json

import pytest

from andes_jax.jobs.batch_file import digest, read_lines
from andes_jax.jobs.batch_plan import BatchPlan, plan_batch
from andes_jax.jobs.folder import open_job
from andes_jax.jobs.tokens import TokenCounter

BODIES = {
    "done": {"prompt": "x" * 50},
    "text": {"prompt": "x" * 10, "max_tokens": 5},
    "open": {"prompt": "x" * 10},
    "two": {"prompt": ["ab", "c"], "max_tokens": 3, "n": 2},
    "ids": {"prompt": [1, 2, 3], "max_tokens": 1000},
    "chat": {"messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 4},
    "wrong": {"prompt": 1, "max_tokens": "many"},
}


class Counts:
    """A token a character, and one for each message."""

    estimates = False

    async def post(self, path, body):
        from andes_jax.jobs.client import Reply

        text = body.get("prompt") or "".join(each["content"] + "." for each in body["messages"])
        return Reply(400 if "bad" in text else 200, {"count": len(text)}, "")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "calls.jsonl"
    lines = [
        json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body})
        for name, body in BODIES.items()
    ]
    refused = {"custom_id": "r", "method": "POST", "url": "/v1/completions", "body": {"prompt": "bad"}}
    path.write_text("\n".join([*lines, "{", json.dumps(refused)]) + "\n")
    return path


async def test_what_is_left_is_counted(path, tmp_path):
    with open_job(tmp_path / "job", {}) as journal:
        done = next(iter(read_lines(path)))
        journal.put("done", {"digest": digest(done), "row": {"a": 1}})
        plan = await plan_batch(path, journal, TokenCounter(Counts()), 100)
    prompts = 10 + 10 + 3 + 3 + 3 + 0
    replies = 5 + 90 + 2 * (3 + 3) + 97 + 4 + 0
    assert plan == BatchPlan(lines=9, bad=2, done=1, calls=6, prompt_tokens=prompts, reply_tokens=replies)


async def test_without_a_job_or_a_known_context_all_is_left(path):
    plan = await plan_batch(path, None, TokenCounter(Counts()), None)
    assert (plan.done, plan.calls, plan.reply_tokens) == (0, 7, 5 + 12 + 1000 + 4)
