"""Lines of a batch file in OpenAI's format: one call each, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from andes_jax.strict_json import parse_json

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
ENDPOINTS = (CHAT, COMPLETIONS)
MAX_CUSTOM_ID = 512  # characters
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One call of a batch. Its body is checked by whoever makes the call."""

    number: int  # of the line in its file, from 1
    custom_id: str
    url: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no call: it ends as an error row, and the others go on."""

    number: int
    custom_id: str | None  # None: it could not be read
    code: str
    message: str
    param: str | None = None


def raw_lines(file: BinaryIO, most_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Number and bytes of every line that is not blank, in constant memory. None for one of more than `most_bytes`."""
    number = 0
    while piece := file.readline(most_bytes + 1):
        number += 1
        if len(piece) > most_bytes and not piece.endswith(b"\n"):
            while (rest := file.readline(most_bytes)) and not rest.endswith(b"\n"):
                pass
            yield number, None
            continue
        if number == 1:
            piece = piece.removeprefix(_BOM)
        if piece.strip():
            yield number, piece


def read_lines(file: BinaryIO, most_bytes: int) -> Iterator[BatchLine | BadLine]:
    """Every line that is not blank, checked. The second line with the same custom_id is a bad one."""
    seen: set[str] = set()
    for number, raw in raw_lines(file, most_bytes):
        if raw is None:
            yield BadLine(number, None, "line_too_large", f"The line is larger than {most_bytes} bytes.")
            continue
        line = parse_line(number, raw)
        if line.custom_id is not None and line.custom_id in seen:
            message = "Another line before it has the same custom_id."
            yield BadLine(number, line.custom_id, "duplicate_custom_id", message, "custom_id")
            continue
        if line.custom_id is not None:
            seen.add(line.custom_id)
        yield line


def parse_line(number: int, raw: bytes) -> BatchLine | BadLine:
    """One line, checked by itself."""
    try:
        value = parse_json(raw)
    except ValueError as error:
        return BadLine(number, None, "invalid_json_line", f"The line is not valid JSON: {error}.")
    if not isinstance(value, dict):
        return BadLine(number, None, "invalid_json_line", "The line must be a JSON object.")
    custom_id = value.get("custom_id")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_CUSTOM_ID:
        message = f"custom_id must be a string of 1 to {MAX_CUSTOM_ID} characters."
        return BadLine(number, None, "invalid_custom_id", message, "custom_id")
    if value.get("method") != "POST":
        return BadLine(number, custom_id, "invalid_method", "method must be 'POST'.", "method")
    url, body = value.get("url"), value.get("body")
    if url not in ENDPOINTS:
        return BadLine(number, custom_id, "invalid_url", f"url must be one of {', '.join(ENDPOINTS)}.", "url")
    if not isinstance(body, dict):
        return BadLine(number, custom_id, "invalid_body", "body must be a JSON object.", "body")
    return BatchLine(number, custom_id, url, body)
