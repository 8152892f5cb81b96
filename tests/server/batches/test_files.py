"""/v1/files over both protocols: uploads good and bad, lists, contents, deletion."""

from __future__ import annotations

import http.client
import socket
import time

import httpx
import openai
import pytest

from tests.server.batches.forms import KIND, upload
from tests.server.batches.parts import lines
from tests.server.parts import chat, mk_context, says
from tests.server.raw_h2 import RawH2
from tests.server.waiting import assert_idle, wait_for


@pytest.fixture
def server(start, tmp_path):
    return start(says("ok"), data_dir=tmp_path / "data", api_keys=("key",), max_file_bytes=2**20)


@pytest.fixture
def client(server, client_of):
    return client_of(server)


def drafts(server) -> list[str]:
    return [path.name for path in server.context.settings.data_dir.glob("*.draft")]


def test_a_file_is_kept_shown_read_and_deleted(client, server):
    content = lines(3) + b"\x00\xff"
    made = client.files.create(file=("名 前.jsonl", content), purpose="batch")
    assert (made.filename, made.bytes, made.purpose, made.status) == ("名 前.jsonl", len(content), "batch", "processed")
    assert client.files.retrieve(made.id) == made and abs(made.created_at - time.time()) < 5
    answer = client.files.content(made.id)
    assert answer.read() == content and answer.response.headers["content-type"] == "application/octet-stream"
    assert client.files.delete(made.id).deleted
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError) as raised:
            call(made.id)
        assert raised.value.code == "not_found" and raised.value.param == "id"
    assert list(server.context.settings.data_dir.glob("contents/*")) == [] and drafts(server) == []


def test_files_are_listed_in_pages(client):
    ids = [client.files.create(file=(f"{number}", b"x"), purpose="batch").id for number in range(5)]
    assert [file.id for file in client.files.list(limit=2)] == ids[::-1]
    assert [file.id for file in client.files.list(limit=3, order="asc")] == ids
    assert list(client.files.list(purpose="other")) == [] and len(client.files.list().data) == 5
    assert client.files.list(limit=2).has_more and not client.files.list(limit=5).has_more
    for query, param in (({"limit": 0}, "limit"), ({"order": "up"}, "order")):
        with pytest.raises(openai.BadRequestError) as raised:
            client.files.list(**query)
        assert raised.value.param == param
    with pytest.raises(openai.NotFoundError) as raised:
        client.files.list(after="file-none")
    assert raised.value.param == "after"


@pytest.mark.parametrize(
    ("options", "param", "code"),
    [
        ({"purpose": "fine-tune"}, "purpose", "invalid_value"),
        ({"extra_body": {"size": 3}}, "size", "unknown_parameter"),
        ({"expires_after": {"anchor": "created_at", "seconds": 60}}, "seconds", "invalid_value"),
        ({"expires_after": {"anchor": "now", "seconds": 3600}}, "anchor", "invalid_value"),
    ],
)
def test_fields_that_are_wrong(client, server, options, param, code):
    with pytest.raises(openai.BadRequestError) as raised:
        client.files.create(**{"file": ("a", b"x"), "purpose": "batch"} | options)
    assert param in raised.value.param and raised.value.code == code
    assert client.files.list().data == [] and drafts(server) == []


def test_a_file_expires_when_its_form_says_so(client):
    file = client.files.create(
        file=("a", b"x"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert file.expires_at == file.created_at + 3600


def test_forms_that_are_none(server):
    with httpx.Client(base_url=server.url, headers={"authorization": "Bearer key"}) as plain:
        for options, status in (
            ({"json": {}}, 415),
            ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400),
            ({"content": b"x", "headers": {"content-type": KIND}}, 400),
            ({"content": upload(b"x")[:-9], "headers": {"content-type": KIND}}, 400),
            ({"data": {"purpose": "batch"}, "files": {"other": b"x"}}, 400),
            ({"files": {"file": b"x"}}, 400),
            ({"data": {"purpose": "batch"}, "files": [("file", b"x"), ("file", b"y")]}, 400),
            ({"data": {"purpose": "batch"}, "files": {"file": ("a" * 300, b"x")}}, 200),
        ):
            answer = plain.post("/v1/files", **options)
            assert answer.status_code == status, answer.text
            assert status == 200 or set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert drafts(server) == []


def test_keys_are_needed_and_other_origins_may_delete(start, tmp_path):
    server = start(says("ok"), data_dir=tmp_path, api_keys=("key",), cors_origins=("https://x",))
    for method, path in (("POST", "/v1/files"), ("GET", "/v1/files/a/content"), ("DELETE", "/v1/files/a")):
        assert httpx.request(method, server.url + path).status_code == 401
    asked = {"origin": "https://x", "access-control-request-method": "DELETE"}
    answer = httpx.options(f"{server.url}/v1/files/a", headers=asked)
    assert answer.status_code == 200 and "DELETE" in answer.headers["access-control-allow-methods"]


def test_a_server_without_a_folder_keeps_none(start, client_of):
    client = client_of(start(says("ok")))
    for call in (
        lambda: client.files.create(file=("a", b"x"), purpose="batch"),
        client.files.list,
        lambda: client.batches.retrieve("batch_1"),
        lambda: client.batches.create(input_file_id="file-1", endpoint="/v1/completions", completion_window="24h"),
    ):
        with pytest.raises(openai.InternalServerError) as raised:
            call()
        assert (raised.value.status_code, raised.value.code) == (501, "no_files")


def test_a_folder_that_cannot_be_used_is_told(start, client_of, tmp_path):
    (tmp_path / "data").write_text("a file")
    client = client_of(start(says("ok"), data_dir=tmp_path / "data"))
    with pytest.raises(openai.InternalServerError) as raised:
        client.files.create(file=("a", b"x"), purpose="batch")
    assert (raised.value.status_code, raised.value.code) == (500, "files_unavailable")
    assert client.models.list().data


@pytest.mark.parametrize("announced", [True, False])
def test_a_file_that_is_too_large_leaves_the_connection_usable(server, protocol, announced):
    """3 MiB to a server that takes 1 MiB."""
    body = upload(b"x" * (3 * 2**20))
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    options = httpx.Client(http1=protocol == "h1", http2=protocol == "h2c", base_url=server.url, timeout=20)
    with options as http:
        http.headers["authorization"] = "Bearer key"
        for _ in range(2):
            answer = http.post("/v1/files", content=body if announced else pieces, headers={"content-type": KIND})
            assert answer.status_code == 413 and answer.json()["error"]["code"] == "body_too_large"
            connection = http._transport._pool.connections
            assert http.post("/v1/chat/completions", json=chat()).status_code == 200
            assert http._transport._pool.connections == connection or protocol == "h1"
            pieces = iter([body])
    assert drafts(server) == []
    assert_idle(server)


def test_a_stream_beside_a_far_too_large_file_goes_on(start, tmp_path):
    """Far more than is taken off the connection before the answer."""
    server = start(says("ok"), data_dir=tmp_path, max_file_bytes=2**16, max_body_bytes=2**16)
    with RawH2(server.port) as raw:
        stream = raw.headers("/v1/files", extra={"content-type": KIND})
        body, at = upload(b"x" * 2**22), 0
        while at < len(body) and not raw.ended(stream):
            size = min(raw.connection.local_flow_control_window(stream), 16384, len(body) - at)
            if size > 0:
                raw.connection.send_data(stream, body[at : at + size])
                at += size
                raw.flush()
            raw.pump(lambda: True)
            raw.pump(lambda: raw.connection.local_flow_control_window(stream) > 0 or raw.ended(stream), 3)
        assert raw.status(stream) == 413
        other = raw.post("/v1/chat/completions", chat())
        assert raw.status(other) == 200


def test_a_slow_upload_is_timed_out_and_hurts_nobody(start, tmp_path):
    server = start(says("ok"), data_dir=tmp_path, body_timeout_s=0.3)
    body = upload(b"x" * 1000)
    with socket.create_connection(("127.0.0.1", server.port)) as slow, RawH2(server.port) as raw:
        head = f"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-type: {KIND}\r\ncontent-length: {len(body)}\r\n\r\n"
        slow.sendall(head.encode() + body[:200])
        stream = raw.headers("/v1/files", extra={"content-type": KIND})
        raw.connection.send_data(stream, body[:200])
        raw.flush()
        assert httpx.post(f"{server.url}/v1/chat/completions", json=chat()).status_code == 200
        slow.settimeout(5)
        assert slow.recv(65536).startswith(b"HTTP/1.1 408")
        assert raw.status(stream) == 408
    assert drafts(server) == []
    assert_idle(server)


def test_clients_that_leave_in_the_middle_leave_nothing(start, tmp_path):
    server = start(says("ok"), data_dir=tmp_path / "data")
    body = upload(b"x" * 300_000)
    with socket.create_connection(("127.0.0.1", server.port)) as one, RawH2(server.port) as raw:
        head = f"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-type: {KIND}\r\ncontent-length: {len(body)}\r\n\r\n"
        one.sendall(head.encode() + body[:100_000])
        stream = raw.headers("/v1/files", extra={"content-type": KIND})
        raw.connection.send_data(stream, body[:16_000])
        raw.flush()
        assert wait_for(lambda: len(drafts(server)) == 2)
        raw.reset(stream)
        one.close()
        assert wait_for(lambda: drafts(server) == [])
    assert list((tmp_path / "data" / "contents").iterdir()) == []
    assert_idle(server)


def test_content_waits_for_a_reader_that_is_slow(start, tmp_path):
    """Of 24 MiB only what the buffers on the way hold leaves the disk."""
    server = start(says("ok"), data_dir=tmp_path)
    size = 24 * 2**20
    made = httpx.post(
        f"{server.url}/v1/files", data={"purpose": "batch"}, files={"file": b"x" * size}, timeout=60
    ).json()
    reader = http.client.HTTPConnection("127.0.0.1", server.port)
    reader.connect()
    reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    with RawH2(server.port, hungry=False) as raw:
        stream = raw.get(f"/v1/files/{made['id']}/content")
        reader.request("GET", f"/v1/files/{made['id']}/content")
        answer = reader.getresponse()
        assert raw.status(stream) == 200
        raw.pump(lambda: False, 0.3)
        assert len(raw.data(stream)) <= 65535
        assert httpx.post(f"{server.url}/v1/chat/completions", json=chat()).status_code == 200
        raw.reset(stream)
    assert sum(len(piece) for piece in iter(lambda: answer.read(2**20), b"")) == size
    reader.close()
    assert_idle(server)


async def test_names_cannot_break_the_answer_s_head(connect, tmp_path):
    client = connect(mk_context(says("ok"), data_dir=tmp_path))
    for name in ('a"b.jsonl', "a\r\nx-evil: 1", "名.jsonl", "\x00\x1b", "%0d%0a"):
        made = (await client.post("/v1/files", data={"purpose": "batch"}, files={"file": (name, b"x")})).json()
        answer = await client.get(f"/v1/files/{made['id']}/content")
        assert answer.status_code == 200 and "x-evil" not in answer.headers
        assert answer.headers["content-disposition"].startswith("attachment")
        assert (await client.get(f"/v1/files/{made['id']}")).json()["filename"] == made["filename"]
    for path in ("..%2f..%2fetc", "%2e%2e", "batches.sqlite3", "%00"):
        assert (await client.get(f"/v1/files/{path}/content")).status_code == 404
