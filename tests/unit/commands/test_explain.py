"""andes-jax explain on the real front end around an engine that knows what it is told, and on request logs."""

from __future__ import annotations

import gzip
import socket
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.commands.explain import LOCAL
from andes_jax.failure import UsageError, UserError
from tests.server.live import live_server
from tests.server.parts import completion, mk_context, says


def record(id: str, **finish: Any) -> dict[str, Any]:
    """One that waited 3.21 s."""
    return {
        "id": id,
        "events": [
            {"at_s": 0.0, "event": "arrived", "tier": "batch", "prompt_tokens": 7},
            {"at_s": 3.21, "event": "admitted", "waiting": 2, "running": 1, "terms": {"arrival": 4}, "computed": 0},
            {"at_s": 4.0, "event": "displaced", "by": "other", "tokens": 5},
            {"at_s": 4.0, "event": "admitted", "kept": True, "terms": {}},
            {"at_s": 10.0, "event": "finished", "reason": "stop", "tokens": 9, **finish},
        ],
        "waits": [
            {"from_s": 0.0, "until_s": 3.21, "for": {"slots": 2.9, "pages": 0.31}},
            {"from_s": 4.0, "until_s": 4.0, "for": {}},
        ],
    }


TOLD = """\
a:0, tier batch, 7 prompt tokens

   0.000 s  arrived
   3.210 s  started after waiting 3.21 s: 2.90 s because all slots were taken, 0.31 s because pages were short
            beside 1 running; 2 others waited
            first come, first served: it was arrival 4
   4.000 s  lost its place to other after 5 tokens
   4.000 s  started again at once
            its pages had been kept in place
  10.000 s  ended: complete, 9 tokens

Waited 3.21 s: 2.90 s because all slots were taken, 0.31 s because pages were short; lost its place once; \
ended after 10.00 s: complete, 9 tokens.
"""


def explained(*arguments: object) -> str:
    """What the command prints."""
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert result.exit_code == 0, result.exception
    return result.stdout


def complaint(*arguments: object, error: type[UserError] = UserError) -> str:
    """The one line that the command fails with."""
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert isinstance(result.exception, error), result.exception
    assert result.exception.exit_code == (2 if error is UsageError else 1) and result.stdout == ""
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_a_request_of_a_running_server_is_told_in_plain_words():
    with live_server(mk_context()) as server:
        server.engine.explained = {"a:0": record("a:0"), "a:1": record("a:1", tokens=1)}
        assert explained("a:0", "--url", server.url) == TOLD
        assert explained("a:0", "--url", server.url.removeprefix("http://") + "/v1/") == TOLD
        whole = explained("a", "--url", server.url)
        assert whole.startswith(TOLD + "\na:1, tier batch") and whole.endswith("complete, 1 token.\n")
        assert orjson.loads(explained("a:1", "--url", server.url, "--json")) == record("a:1", tokens=1)
        both = {"id": "a", "requests": list(server.engine.explained.values())}
        assert orjson.loads(explained("a", "--url", server.url, "--json")) == both
        for unknown in ("a:2", "chatcmpl-ü %2F?#"):
            said = complaint(unknown, "--url", server.url)
            assert repr(unknown) in said and "--log FILE" in said


def test_the_key_is_sent_and_a_wrong_one_is_said():
    with live_server(mk_context(api_keys=("secret",))) as server:
        server.engine.explained = {"a:0": record("a:0")}
        assert explained("a:0", "--url", server.url, "--api-key", "secret") == TOLD
        for wrong in ([], ["--api-key", "wrong"]):
            said = complaint("a:0", "--url", server.url, *wrong)
            assert "--api-key" in said and "wrong" not in said


def test_the_log_of_a_server_tells_it_afterwards(tmp_path):
    log = tmp_path / "requests.jsonl"
    with live_server(mk_context(says("x"), request_log=log)) as server:
        server.engine.explain = record  # of every id
        reply = httpx.post(f"{server.url}/v1/completions", json=completion(["a", "b"])).json()
        httpx.post(f"{server.url}/v1/completions", json=completion(["c"]))
    one, call = explained(f"{reply['id']}:1", "--log", log), explained(reply["id"], "--log", log)
    assert one.startswith(f"{reply['id']}:1, tier batch, 7 prompt tokens\n") and "lost its place to other" in one
    assert call.count("ended after 10.00 s") == 2 and call.endswith("\n" + one)
    told = orjson.loads(explained(reply["id"], "--log", log, "--json"))
    assert [each["events"] for each in told["requests"]] == [record("")["events"]] * 2
    assert "no request 'chatcmpl-1'" in complaint("chatcmpl-1", "--log", log)


def line(id: str, **members: Any) -> bytes:
    return orjson.dumps({"id": id, "finish": "stop", **members}) + b"\n"


def test_of_lines_with_the_same_id_the_last_counts_and_choices_are_in_order(tmp_path):
    log = tmp_path / "requests.jsonl.gz"
    events = record("")["events"]
    log.write_bytes(
        gzip.compress(
            line("a:10", explain=events)
            + line("a:2", explain=events[:1])
            + line("a:2", explain=events, waits=record("")["waits"])
            + line("a:2x", explain=events)
            + line("ab", explain=[events[0] | {"by": "a"}])
            + b'["a"]\n'
            + b"{half of another line\n"
        )
    )
    told = orjson.loads(explained("a", "--log", log, "--json"))
    assert [each["id"] for each in told["requests"]] == ["a:2", "a:10"]
    assert told["requests"][0] == {"id": "a:2", "events": events, "waits": record("")["waits"]}
    assert "Waited 3.21 s, for what is not recorded;" in explained("a:10", "--log", log)
    log.write_bytes(log.read_bytes()[:-9])
    assert str(log) in complaint("a", "--log", log)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"", ["no request 'a'"]),
        (line("a", finish="refused"), ["it was refused"]),
        (line("a"), ["it ended"]),
        (line("b") + b'{"id":"a", half\n', ["line 2", "no JSON"]),
        (line("a", explain=[]), ["cannot be read", "events"]),
        (line("a", explain="x"), ["cannot be read"]),
        (line("a", explain=[{"event": "arrived"}]), ["cannot be read", "at_s"]),
    ],
)
def test_a_log_that_does_not_help_is_one_line(tmp_path, text, parts):
    log = tmp_path / "requests.jsonl"
    log.write_bytes(text)
    said = complaint("a", "--log", log)
    assert all(part in said for part in parts), said


def test_files_that_are_not_there_or_not_compressed(tmp_path):
    result = CliRunner().invoke(app, ["explain", "a", "--log", str(tmp_path / "none")])
    assert isinstance(result.exception, FileNotFoundError)
    plain = tmp_path / "plain.gz"
    plain.write_bytes(line("a"))
    assert str(plain) in complaint("a", "--log", plain)


def test_wrong_use(tmp_path):
    for wrong in ("", "a/b", "a\n", "\udcff"):
        complaint(wrong, error=UsageError)
    complaint("a", "--log", tmp_path, "--url", LOCAL, error=UsageError)
    complaint("a", "--url", "ftp://x", error=UsageError)
    complaint("a", "--api-key", "ü", error=UsageError)


def test_a_dead_server_is_one_line():
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert url in complaint("a", "--url", url)


@pytest.mark.parametrize(
    ("status", "body", "part"),
    [
        (404, b"<html>not found</html>", "is it an andes-jax server?"),
        (404, b'{"error": "not found"}', "is it an andes-jax server?"),
        (200, b"[]", "is it an andes-jax server?"),
        (200, b"{}", "cannot be read"),
        (200, b'{"requests": 3}', "cannot be read"),
        (503, b'{"error": {"message": "The server is shutting down."}}', "503: The server is shutting down."),
        (502, b"", "502"),
    ],
)
def test_answers_of_other_servers(status, body, part):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        assert part in complaint("a", "--url", f"http://127.0.0.1:{server.server_port}")
        thread.join()


def test_what_a_terminal_would_obey_is_not_printed(tmp_path):
    log = tmp_path / "requests.jsonl"
    log.write_bytes(line("a", explain=[{"at_s": 0, "event": "arrived", "tier": "\x1b[2J"}]))
    assert "\x1b" not in explained("a", "--log", log)


def test_help_teaches():
    shown = CliRunner().invoke(app, ["explain", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    assert "andes-jax explain chatcmpl-" in shown and "--log requests.jsonl" in shown and LOCAL in shown
