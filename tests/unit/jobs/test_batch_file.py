"""Calls of a batch file by name, and their rows."""

from __future__ import annotations

import json

import pytest

from andes_jax.batch_lines import BadLine, BatchLine
from andes_jax.jobs.batch_file import bad_row, digest, is_error, read_lines, reply_row
from andes_jax.jobs.client import Reply


def read(tmp_path, *bodies: str):
    path = tmp_path / "calls.jsonl"
    line = '{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": %s}\n'
    path.write_text("".join(line % (index, body) for index, body in enumerate(bodies)))
    return list(read_lines(path))


def test_streams_and_what_cannot_be_sent_are_bad_lines(tmp_path):
    deep = '{"prompt":' + "[" * 300 + "]" * 300 + "}"
    lines = read(tmp_path, '{"stream": true}', '{"stream": false}', '{"seed": 123456789012345678901}', deep)
    assert [type(line) for line in lines] == [BadLine, BatchLine, BadLine, BadLine]
    assert {line.code for line in lines if isinstance(line, BadLine)} == {"invalid_body"}
    assert "stream" in bad_row(lines[0])["error"]["message"]
    assert [line.number for line in lines] == [1, 2, 3, 4]


def test_a_call_is_the_same_however_it_is_written():
    first = BatchLine(1, "a", "/v1/completions", {"prompt": "x", "n": 1})
    assert digest(first) == digest(BatchLine(9, "a", "/v1/completions", {"n": 1, "prompt": "x"}))
    others = [
        BatchLine(1, "b", first.url, first.body),
        BatchLine(1, "a", "/v1/chat/completions", first.body),
        BatchLine(1, "a", first.url, {"prompt": "y", "n": 1}),
    ]
    assert len({digest(line) for line in (first, *others)}) == 4


@pytest.mark.parametrize(("status", "error"), [(200, False), (400, True), (500, True)])
def test_rows_of_replies(status, error):
    row = reply_row(BatchLine(1, "a", "/v1/completions", {}), Reply(status, {"id": "x"}, "req"))
    assert row["response"] == {"status_code": status, "request_id": "req", "body": {"id": "x"}}
    assert (row["custom_id"], row["error"], is_error(row)) == ("a", None, error)
    assert row["id"].startswith("batch_req_") and json.dumps(row)


def test_rows_of_bad_lines():
    row = bad_row(BadLine(3, None, "invalid_json_line", "No.", None))
    assert (row["custom_id"], row["response"], is_error(row)) == (None, None, True)
    assert row["error"] == {"code": "invalid_json_line", "message": "No.", "param": None, "line": 3}
    assert row["id"] != bad_row(BadLine(4, None, "invalid_json_line", "No."))["id"]
