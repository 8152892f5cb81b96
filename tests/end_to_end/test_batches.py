"""Batches on the real model: killed in the middle, gone on with by a server of several processes: the same rows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Batch

from tests.end_to_end.server_process import ServerProcess, assert_nothing_held, metrics, server_process, wait_for

pytestmark = pytest.mark.timeout(280)
URL = "/v1/chat/completions"
TOPICS = (
    "rain",
    "sea",
    "fire",
    "stone",
    "bread",
    "salt",
    "wool",
    "glass",
    "clay",
    "tin",
    "corn",
    "honey",
    "snow",
    "dust",
)
LINES = 20
ENDS = ("completed", "failed", "cancelled", "expired")


def call(number: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Tell me about {TOPICS[number % len(TOPICS)]}."}]
    body = {"messages": messages, "max_tokens": 5 + number % 7, "temperature": 0, "ignore_eos": True}
    return {"custom_id": f"r{number}", "method": "POST", "url": URL, "body": body}


CONTENT = "\n".join([*(json.dumps(call(number)) for number in range(LINES)), "{broken"]).encode()


@pytest.fixture(scope="module")
def uninterrupted(server) -> tuple[list[Any], list[Any]]:
    """The rows of a batch that was left alone."""
    with client_of(server) as client:
        return rows_of(client, finish(client, begin(client)))


def client_of(server: ServerProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=2)


def begin(client: openai.OpenAI, content: bytes = CONTENT) -> Batch:
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=URL, completion_window="24h")


def finish(client: openai.OpenAI, batch: Batch) -> Batch:
    deadline = time.monotonic() + 120
    while (batch := client.batches.retrieve(batch.id)).status not in ENDS:
        assert time.monotonic() < deadline, batch
        time.sleep(0.05)
    assert batch.status == "completed"
    return batch


def rows_of(client: openai.OpenAI, batch: Batch) -> tuple[list[Any], list[Any]]:
    """A batch's rows without what is of the moment, its answers and its errors."""
    found = []
    for file_id in (batch.output_file_id, batch.error_file_id):
        rows = [json.loads(row) for row in client.files.content(file_id).text.splitlines()]
        for row in rows:
            if row["response"] is not None:
                del row["response"]["request_id"]
                for name in ("id", "created"):
                    del row["response"]["body"][name]
                del row["response"]["body"]["usage"]["prompt_tokens_details"]  # what others had left in the cache
        found.append(rows)
    counts = batch.request_counts
    assert (
        (counts.total, counts.completed, counts.failed)
        == (LINES + 1, LINES, 1)
        == (LINES + 1, len(found[0]), len(found[1]))
    )
    return found[0], found[1]


def test_a_batch_whose_server_is_killed_goes_on_to_the_same_rows(uninterrupted, tmp_path):
    """The next server has two processes for connections: one of them works on the batch, any answers."""
    assert [row["custom_id"] for row in uninterrupted[0]] == [f"r{number}" for number in range(LINES)]
    options = ("--no-warmup", "--data-dir", str(tmp_path / "data"))
    with server_process(*options) as first, client_of(first) as client:
        batch = begin(client)
        assert wait_for(lambda: client.batches.retrieve(batch.id).request_counts.completed >= 3, 60, every_s=0.01)
        first.process.kill()
        first.process.wait()
    with server_process(*options, "--http-workers", "2") as second, client_of(second) as client:
        finished = finish(client, batch)
        assert rows_of(client, finished) == uninterrupted
        ended = "andes_requests_finished_total{endpoint=/v1/chat/completions,finish_reason=length}"
        assert metrics(second.url)[ended] <= LINES - 3, "some were asked for again, or by both"
        assert_nothing_held(second.url)
        assert client.files.content(batch.input_file_id).read() == CONTENT
    assert not list(Path(tmp_path, "data").glob("*.draft")) and not list(Path(tmp_path, "data", "locks").iterdir())


def test_a_batch_leaves_readers_their_first_token(server):
    """An interactive call beside a running batch is taken and answered before the batch is done."""
    with client_of(server) as client:
        batch = begin(client, b"\n".join(CONTENT.splitlines()[:10]))
        assert wait_for(lambda: client.batches.retrieve(batch.id).status == "in_progress", 20, every_s=0.01)
        reply = client.with_options(max_retries=0).completions.create(
            model=client.models.list().data[0].id, prompt="Hi", max_tokens=2
        )
        assert reply.choices[0].text
        finish(client, batch)
    assert_nothing_held(server.url)
