"""Uploads as messages of a call: written as they come, bounded in size and time."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from starlette.requests import ClientDisconnect

from server.batches import uploads as module
from server.batches.uploads import FORM_BYTES, Uploads
from server.context import ServerSettings
from server.errors import ApiError
from tests.server.batches.forms import KIND, field, form, upload


def scope(kind: str = KIND, length: int | None = None) -> dict:
    headers = [(b"content-type", kind.encode())]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http", "headers": headers}


def receiving(*pieces: bytes, ends: bool = True, every_s: float = 0.0):
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if ends:
        messages[-1]["more_body"] = False
    else:
        messages.append({"type": "http.disconnect"})

    async def receive():
        await asyncio.sleep(every_s)
        return messages.pop(0)

    return receive


@pytest.fixture
def draft(tmp_path):
    return tmp_path / "a.draft"


async def refused(draft, receive, head=None, **settings) -> ApiError:
    uploads = Uploads(ServerSettings(**settings))
    with pytest.raises(ApiError) as raised:
        await uploads.take(head or scope(), receive, draft)
    assert uploads._at_once == 0
    return raised.value


async def test_a_file_is_written_as_it_comes(draft):
    body = upload(b"x" * 1000, "名.jsonl")
    taken = await Uploads(ServerSettings()).take(scope(), receiving(*(bytes([each]) for each in body)), draft)
    assert (taken.filename, taken.bytes, taken.fields) == ("名.jsonl", 1000, {"purpose": "batch"})
    assert draft.read_bytes() == b"x" * 1000


async def test_forms_that_are_none(draft):
    assert (await refused(draft, receiving(b"x"), scope("application/json"))).status == 415
    assert (await refused(draft, receiving(form(field("purpose", "batch"))))).code == "missing_required_parameter"
    assert "no end" in (await refused(draft, receiving(upload(b"x")[:-8]))).message
    assert (await refused(draft, receiving(b"nothing"))).code == "invalid_form"


async def test_sizes_around_the_limit(draft):
    for size, fits in ((1024, True), (1025, False), (9999, False)):
        body = upload(b"x" * size)
        for head in (scope(), scope(length=len(body))):
            if fits:
                await Uploads(ServerSettings(max_file_bytes=1024)).take(head, receiving(body), draft)
                assert draft.stat().st_size == size
            else:
                error = await refused(draft, receiving(body), head, max_file_bytes=1024)
                assert (error.status, error.code) == (413, "body_too_large")
    untouched = receiving(b"")
    error = await refused(draft, untouched, scope(length=1024 + FORM_BYTES + 1), max_file_bytes=1024)
    assert error.status == 413
    assert (await refused(draft, untouched, scope(length=10**30), max_file_bytes=1024)).status == 413


async def test_what_is_beside_the_file_is_bounded_too(draft):
    pieces = [b"--a-boundary\r\n", *(b"preamble" * 1000 for _ in range(20))]
    error = await refused(draft, receiving(*pieces), max_file_bytes=1024)
    assert error.status in (400, 413)
    body = upload(b"x") + b"epilogue" * 20_000
    assert (
        await refused(draft, receiving(*(body[at : at + 999] for at in range(0, len(body), 999))), max_file_bytes=9)
    ).status == 413


async def test_clients_that_send_nothing_or_too_slowly_are_given_up(draft, monkeypatch):
    body = upload(b"x" * 100)
    error = await refused(draft, receiving(body[:50], every_s=5), body_timeout_s=0.05)
    assert (error.status, error.code) == (408, "body_timeout")
    monkeypatch.setattr(module, "SLOWEST_BYTES_S", 1000)
    drip = receiving(*(body[at : at + 1] for at in range(len(body))), every_s=0.01)
    assert (await refused(draft, drip, body_timeout_s=0.1)).status == 408
    steady = receiving(*(body[at : at + 20] for at in range(0, len(body), 20)), every_s=0.01)
    await Uploads(ServerSettings(body_timeout_s=0.1)).take(scope(), steady, draft)


async def test_a_client_that_leaves_is_told_nothing(draft):
    with pytest.raises(ClientDisconnect):
        await Uploads(ServerSettings()).take(scope(), receiving(upload(b"x")[:50], ends=False), draft)


async def test_so_many_at_once(draft, monkeypatch):
    monkeypatch.setattr(module, "MOST_AT_ONCE", 1)
    uploads = Uploads(ServerSettings())
    first = asyncio.create_task(uploads.take(scope(), receiving(upload(b"x"), every_s=0.1), draft))
    await asyncio.sleep(0.01)
    with pytest.raises(ApiError) as raised:
        await uploads.take(scope(), receiving(upload(b"x")), draft)
    assert raised.value.status == 503
    assert (await first).bytes == 1


async def test_a_large_file_is_not_held_in_memory(draft):
    head, _, tail = upload(b"|").partition(b"|")
    pieces = iter([head, *([b"x" * 65536] * 320)])  # 20 MiB

    async def receive():
        piece = next(pieces, None)
        return {"type": "http.request", "body": tail if piece is None else piece, "more_body": piece is not None}

    tracemalloc.start()
    try:
        taken = await Uploads(ServerSettings()).take(scope(), receive, draft)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken.bytes == 20 * 2**20 == draft.stat().st_size and most < 2 * 2**20
