"""Lines of batch files, good and bad."""

from __future__ import annotations

import io
import json

import pytest

from andes_jax.batch_lines import BadLine, BatchLine, parse_line, raw_lines, read_lines


def line(custom_id="a", **changes):
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": {"prompt": "hi"}} | changes


def test_a_call():
    read = parse_line(7, json.dumps(line(extra=1)).encode())
    assert read == BatchLine(7, "a", "/v1/completions", {"prompt": "hi"})


@pytest.mark.parametrize(
    ("text", "code", "custom_id"),
    [
        (b"{", "invalid_json_line", None),
        (b"[]", "invalid_json_line", None),
        (b'{"custom_id": "a", "custom_id": "b"}', "invalid_json_line", None),
        (json.dumps(line(3)).encode(), "invalid_custom_id", None),
        (json.dumps(line("")).encode(), "invalid_custom_id", None),
        (json.dumps(line("x" * 513)).encode(), "invalid_custom_id", None),
        (json.dumps(line(method="GET")).encode(), "invalid_method", "a"),
        (json.dumps(line(url="/v1/embeddings")).encode(), "invalid_url", "a"),
        (json.dumps(line(url=["/v1/completions"])).encode(), "invalid_url", "a"),
        (json.dumps(line(body=None)).encode(), "invalid_body", "a"),
    ],
)
def test_bad_lines_say_why(text, code, custom_id):
    read = parse_line(1, text)
    assert isinstance(read, BadLine) and (read.code, read.custom_id) == (code, custom_id)
    assert read.message.endswith(".")


def test_lines_of_a_file():
    text = b"\xef\xbb\xbfone\n\n  \r\ntwo\r\n" + b"x" * 100 + b"\nlast"
    assert list(raw_lines(io.BytesIO(text), 10)) == [(1, b"one\n"), (4, b"two\r\n"), (5, None), (6, b"last")]
    exact = b"x" * 10
    assert list(raw_lines(io.BytesIO(exact + b"\n" + exact), 10)) == [(1, exact + b"\n"), (2, exact)]
    assert list(raw_lines(io.BytesIO(b"x" * 11), 10)) == [(1, None)]


def test_the_second_of_the_same_name_is_bad():
    text = b"\n".join(json.dumps(line(name)).encode() for name in ("a", "b", "a")) + b"\n" + b"y" * 999
    read = list(read_lines(io.BytesIO(text), 200))
    assert [type(each) for each in read] == [BatchLine, BatchLine, BadLine, BadLine]
    assert [each.code for each in read[2:]] == ["duplicate_custom_id", "line_too_large"]
