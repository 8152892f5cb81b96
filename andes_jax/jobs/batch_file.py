"""A batch job's file: its calls, each with a name for what it asks, and the rows that come of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from andes_jax import batch_lines
from andes_jax.batch_lines import BadLine, BatchLine
from andes_jax.jobs.client import Reply

MAX_LINE_BYTES = 32 * 2**20


def read_lines(path: Path) -> Iterator[BatchLine | BadLine]:
    """Every line that is not blank; what no call can be made of is a bad one. Raises OSError."""
    with open(path, "rb") as file:
        for line in batch_lines.read_lines(file, MAX_LINE_BYTES):
            yield _callable(line) if isinstance(line, BatchLine) else line


def _callable(line: BatchLine) -> BatchLine | BadLine:
    """The line, unless its answer would be a stream or its body cannot be sent."""
    if line.body.get("stream"):
        message = "stream cannot be true in a batch."
        return BadLine(line.number, line.custom_id, "invalid_body", message, "body.stream")
    try:
        orjson.dumps(line.body)
    except orjson.JSONEncodeError as error:
        return BadLine(line.number, line.custom_id, "invalid_body", f"The body cannot be sent: {error}.", "body")
    return line


def digest(line: BatchLine) -> str:
    """The same for the same call, however and wherever its line is written."""
    return _digest([line.custom_id, line.url, line.body])


def reply_row(line: BatchLine, reply: Reply) -> dict[str, Any]:
    """The row of a call that was answered, whether well or with an error."""
    response = {"status_code": reply.status, "request_id": reply.request_id, "body": reply.body}
    return {"id": _row_id(digest(line)), "custom_id": line.custom_id, "response": response, "error": None}


def bad_row(line: BadLine) -> dict[str, Any]:
    """The row of a line that is no call."""
    error = {"code": line.code, "message": line.message, "param": line.param, "line": line.number}
    name = _digest([line.number, line.custom_id, line.code])
    return {"id": _row_id(name), "custom_id": line.custom_id, "response": None, "error": error}


def is_error(row: dict[str, Any]) -> bool:
    """Whether a row belongs among the errors."""
    return row["response"] is None or row["response"]["status_code"] != 200


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _row_id(name: str) -> str:
    return f"batch_req_{name[:24]}"
