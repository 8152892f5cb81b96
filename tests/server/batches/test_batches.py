"""/v1/batches over both protocols with the openai client: from an upload to rows, and everything that comes between."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import httpx
import openai
import pytest

from andes_jax.request import Tier
from tests.server.batches.parts import MODEL, line, lines
from tests.server.fake_engine import FakeLimits
from tests.server.live import live_server
from tests.server.parts import chat, completion, mk_context, says
from tests.server.waiting import assert_idle, wait_for

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ENDS = ("completed", "failed", "cancelled", "expired")


@pytest.fixture
def server(start, tmp_path):
    return start(says("ok"), data_dir=tmp_path / "data", api_keys=("key",), request_log=tmp_path / "log")


@pytest.fixture
def client(server, client_of):
    return client_of(server)


def begin(client, content, endpoint=COMPLETIONS, **options):
    """A batch of this content."""
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **options)


def finish(client, batch, timeout_s=10.0):
    """The batch at its end."""
    deadline = time.monotonic() + timeout_s
    while (batch := client.batches.retrieve(batch.id)).status not in ENDS:
        assert time.monotonic() < deadline, batch
        time.sleep(0.01)
    return batch


def rows(client, file_id):
    return [] if file_id is None else [json.loads(row) for row in client.files.content(file_id).text.splitlines()]


def test_a_batch_from_beginning_to_end(client, server):
    calls = [
        {"custom_id": "a", "method": "POST", "url": CHAT, "body": chat("hi")},
        {"custom_id": "b", "method": "POST", "url": CHAT, "body": chat("hi", n=2, service_tier="priority")},
        {"custom_id": "c", "method": "POST", "url": CHAT, "body": chat("hi", temperature=9)},
        {"custom_id": "d", "method": "POST", "url": CHAT, "body": chat("hi") | {"model": "another"}},
        {"custom_id": "e", "method": "POST", "url": COMPLETIONS, "body": completion()},
        {"custom_id": "a", "method": "POST", "url": CHAT, "body": chat("hi")},
    ]
    content = b"\n".join(json.dumps(call).encode() for call in calls) + b"\n{broken"
    made = begin(client, content, CHAT, metadata={"who": "me"})
    assert (made.status, made.metadata, made.expires_at) == ("validating", {"who": "me"}, made.created_at + 86400)
    batch = finish(client, made)
    assert batch.status == "completed" and batch.request_counts.to_dict() == {"total": 7, "completed": 2, "failed": 5}
    good, bad = rows(client, batch.output_file_id), rows(client, batch.error_file_id)
    assert [row["custom_id"] for row in good] == ["a", "b"]
    for row in good:
        assert row["response"]["status_code"] == 200 and row["error"] is None
        body = row["response"]["body"]
        assert body["service_tier"] == "flex" and body["id"] == row["response"]["request_id"]
        assert {choice["message"]["content"] for choice in body["choices"]} == {"ok"}
    assert [(row["custom_id"], (row["response"] or {}).get("status_code")) for row in bad] == [
        ("c", 400),
        ("d", 404),
        ("e", None),
        ("a", None),
        (None, None),
    ]
    assert bad[0]["response"]["body"]["error"]["param"] == "temperature"
    output = client.files.retrieve(batch.output_file_id)
    assert (output.purpose, output.filename) == ("batch_output", f"{batch.id}_output.jsonl")
    assert all(request.tier is Tier.BATCH for request in server.engine.submitted)
    assert_idle(server)


def test_batches_are_listed_in_pages(client):
    ids = [begin(client, lines(1)).id for _ in range(5)]
    assert [batch.id for batch in client.batches.list(limit=2)] == ids[::-1]
    assert [batch.id for batch in client.batches.list()] == ids[::-1]
    for query, error in (({"limit": 101}, openai.BadRequestError), ({"after": "batch_no"}, openai.NotFoundError)):
        with pytest.raises(error):
            client.batches.list(**query)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"endpoint": "/v1/embeddings"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"x": "y" * 513}}, "metadata"),
        ({"metadata": {f"{number}": "" for number in range(17)}}, "metadata"),
        ({"extra_body": {"size": 1}}, "size"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after"),
    ],
)
def test_what_is_wrong_with_a_batch_is_a_400(client, change, param):
    usual = {"input_file_id": "file-1", "endpoint": COMPLETIONS, "completion_window": "24h"}
    with pytest.raises(openai.BadRequestError) as raised:
        client.batches.create(**usual | change)
    assert param in (raised.value.param or "")
    assert client.batches.list().data == []


def test_what_is_not_there_is_a_404(client):
    with pytest.raises(openai.NotFoundError) as raised:
        client.batches.create(input_file_id="file-1", endpoint=COMPLETIONS, completion_window="24h")
    assert raised.value.param == "input_file_id"
    for call in (client.batches.retrieve, client.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            call("batch_none")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").batches.list()


def test_a_batch_in_the_middle_is_cancelled_at_once_and_its_file_then_deleted(client, server):
    server.engine.hold()
    made = begin(client, lines(200))
    assert wait_for(lambda: len(server.engine.live) >= 64)
    with pytest.raises(openai.ConflictError) as raised:
        client.files.delete(made.input_file_id)
    assert raised.value.code == "file_in_use" and made.id in raised.value.message
    running = set(server.engine.live)
    assert client.batches.cancel(made.id).status == "cancelling"
    assert wait_for(lambda: running <= set(server.engine.cancelled), 1.0), "replies go on that nobody waits for"
    server.engine.release()
    batch = finish(client, made)
    assert batch.status == "cancelled" and batch.request_counts.failed == 200
    assert len(rows(client, batch.error_file_id)) == 200 and batch.output_file_id is None
    with pytest.raises(openai.ConflictError) as raised:
        client.batches.cancel(made.id)
    assert raised.value.code == "invalid_state"
    assert client.files.delete(made.input_file_id).deleted
    assert_idle(server)


def test_batch_calls_are_counted_apart_from_those_of_clients(client, server, tmp_path):
    finish(client, begin(client, lines(5) + line("bad", n=0)))
    client.completions.create(model=MODEL, prompt="hi")
    said = httpx.get(f"{server.url}/metrics", headers={"authorization": "Bearer key"}).text.splitlines()
    for expected in (
        'andes_http_requests_total{endpoint="/v1/completions",status="200"} 1.0',
        'andes_http_requests_total{endpoint="batch /v1/completions",status="200"} 5.0',
        'andes_http_requests_total{endpoint="batch /v1/completions",status="400"} 1.0',
        'andes_requests_finished_total{endpoint="/v1/completions",finish_reason="stop"} 6.0',
        'andes_first_token_seconds_count{tier="batch"} 5.0',
    ):
        assert expected in said
    assert wait_for(lambda: len(Path(tmp_path, "log").read_bytes().splitlines()) == 6)
    tiers = [json.loads(each)["tier"] for each in Path(tmp_path, "log").read_bytes().splitlines()]
    assert tiers == ["batch"] * 5 + ["streaming"]


@pytest.mark.parametrize(("slots", "most_live"), [(4, 8), (8, 8), (64, 40)])
def test_a_running_batch_leaves_room_for_others(tmp_path, slots, most_live):
    context = mk_context(says("ok"), max_waiting=most_live, data_dir=tmp_path)
    context.engine.limits = FakeLimits(max_sequences=slots, max_live=most_live)
    context.engine.hold()
    with (
        live_server(context) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client,
    ):
        made = begin(client, lines(100, n=2))
        assert wait_for(lambda: len(server.engine.live) >= min(slots, most_live * 3 // 4) - 1)
        time.sleep(0.05)
        assert len(server.engine.live) <= most_live * 3 // 4
        with client.with_options(max_retries=0).with_streaming_response.chat.completions.create(
            model=MODEL, messages=chat()["messages"], n=most_live // 4, stream=True
        ) as answer:
            assert answer.status_code == 200, "refused for the sake of a batch"
            server.engine.release()
            assert answer.read().count(b'"finish_reason":"stop"') == most_live // 4
        assert finish(client, made).request_counts.completed == 100


def test_a_signal_in_the_middle_ends_the_server_and_the_next_one_goes_on(start, client_of, tmp_path):
    first = start(says("ok"), data_dir=tmp_path)
    client = client_of(first)
    made = begin(client, lines(150))
    first.engine.hold()
    assert wait_for(lambda: first.engine.live)
    began = time.monotonic()
    first.signal(signal.SIGTERM)
    first.engine.release()
    assert first.join(5) == 0 and time.monotonic() - began < 3
    second = start(says("ok"), data_dir=tmp_path)
    client = client_of(second)
    batch = finish(client, made)
    assert batch.status == "completed" and batch.request_counts.completed == 150
    found = [row["custom_id"] for row in rows(client, batch.output_file_id)]
    assert found == [f"r{number}" for number in range(1, 151)]
    assert (
        len(second.engine.submitted) <= 150 and len(first.engine.submitted) + len(second.engine.submitted) < 150 + 100
    )


def test_an_upload_that_runs_when_the_signal_comes_is_finished(start, tmp_path):
    """Batches end at once, but calls about files have until the timeout."""
    server = start(says("ok"), data_dir=tmp_path)

    def slowly():
        body = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\n'
        yield body + b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        assert wait_for(lambda: list(tmp_path.glob("*.draft")))
        server.signal(signal.SIGTERM)
        assert wait_for(lambda: server.serving.app.services.lifecycle.draining)
        time.sleep(0.1)
        yield b"x\r\n--b--\r\n"

    answer = httpx.post(
        f"{server.url}/v1/files", content=slowly(), headers={"content-type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code == 200 and server.join(5) == 0


async def test_another_server_of_the_folder_answers_and_cancels(connect, tmp_path):
    """It does no work itself: it was never started."""
    client = connect(mk_context(says("ok"), data_dir=tmp_path))
    made = (await client.post("/v1/files", data={"purpose": "batch"}, files={"file": lines(2)})).json()
    body = {"input_file_id": made["id"], "endpoint": COMPLETIONS, "completion_window": "24h"}
    batch = (await client.post("/v1/batches", json=body)).json()
    other = connect(mk_context(says("ok"), data_dir=tmp_path))
    assert (await other.get(f"/v1/batches/{batch['id']}")).json() == batch
    assert (await other.post(f"/v1/batches/{batch['id']}/cancel")).json()["status"] == "cancelling"
    await asyncio.sleep(0.05)
    assert (await client.get(f"/v1/batches/{batch['id']}")).json()["status"] == "cancelling"
