"""Batch files in OpenAI's format: one call a line, or what is wrong with it, and the rows that come of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from andes_jax.jobs.client import Reply
from server.body import parse_object
from server.errors import ApiError, quoted

ENDPOINTS = ("/v1/chat/completions", "/v1/completions")
MAX_CUSTOM_ID = 512  # characters
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One call of a batch. Its body is checked by whoever answers the call."""

    custom_id: str
    url: str
    body: dict[str, Any]

    @property
    def digest(self) -> str:
        """The same for the same call, however its line is written."""
        return digest([self.custom_id, self.url, self.body])


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no call."""

    custom_id: str | None  # None: it could not be read
    code: str
    message: str
    digest: str


def digest(value: Any) -> str:
    """A name for a JSON value."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read_lines(path: Path) -> Iterator[BatchLine | BadLine]:
    """Every line that is not blank. The second line with the same custom_id is a bad one. Raises OSError."""
    seen: set[str] = set()
    with open(path, "rb") as file:
        for raw in file:
            text = raw.removeprefix(_BOM).strip()
            if not text:
                continue
            line = parse_line(text)
            if line.custom_id is not None and line.custom_id in seen:
                name = hashlib.sha256(text).hexdigest()
                line = BadLine(line.custom_id, "duplicate_custom_id", "An earlier line has the same custom_id.", name)
            elif line.custom_id is not None:
                seen.add(line.custom_id)
            yield line


def parse_line(text: bytes) -> BatchLine | BadLine:
    """One line by itself."""
    name = hashlib.sha256(text).hexdigest()
    try:
        value = parse_object(text)
    except ApiError as error:
        return BadLine(None, "invalid_json_line", error.message.replace("request body", "line"), name)
    custom_id = value.get("custom_id")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_CUSTOM_ID:
        message = f"'custom_id' must be a string of 1 to {MAX_CUSTOM_ID} characters."
        return BadLine(None, "invalid_custom_id", message, name)
    url, body = value.get("url"), value.get("body")
    if value.get("method") != "POST":
        return BadLine(custom_id, "invalid_method", "'method' must be 'POST'.", name)
    if url not in ENDPOINTS:
        given = quoted(url) if isinstance(url, str) else "missing or no string"
        return BadLine(custom_id, "invalid_url", f"'url' must be {' or '.join(ENDPOINTS)}, but is {given}.", name)
    if not isinstance(body, dict):
        return BadLine(custom_id, "invalid_body", "'body' must be a JSON object.", name)
    if body.get("stream"):
        return BadLine(custom_id, "invalid_body", "'stream' cannot be true in a batch.", name)
    return BatchLine(custom_id, url, body)


def reply_row(line: BatchLine, reply: Reply) -> dict[str, Any]:
    """The row of a call that was answered, whether well or with an error."""
    response = {"status_code": reply.status, "request_id": reply.request_id, "body": reply.body}
    return {"id": _row_id(line.digest), "custom_id": line.custom_id, "response": response, "error": None}


def bad_row(line: BadLine) -> dict[str, Any]:
    """The row of a line that is no call."""
    error = {"code": line.code, "message": line.message}
    return {"id": _row_id(line.digest), "custom_id": line.custom_id, "response": None, "error": error}


def is_error(row: dict[str, Any]) -> bool:
    """Whether a row belongs among the errors."""
    return row["response"] is None or row["response"]["status_code"] != 200


def _row_id(name: str) -> str:
    return f"batch_req_{name[:24]}"
