"""Reads recorded workloads: lengths of prompts and replies, and for most of them when they arrived."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from andes_jax.failure import UserError
from andes_jax.request import Tier

MOST = 1e13  # seconds or milliseconds: times since 1970 are less
MOST_TOKENS = 10_000_000  # more than any model reads
_GZIP = b"\x1f\x8b"
_FORMATS = (
    "CSV with the columns prompt_tokens, output_tokens and perhaps arrived_s and tier, or with Azure's columns "
    "TIMESTAMP, ContextTokens, GeneratedTokens; or JSON lines as Mooncake's or as this server's request log"
)


class TraceRow(NamedTuple):
    """One recorded request."""

    arrived_s: float | None  # from the trace's beginning; None where only lengths were recorded
    prompt_tokens: int
    output_tokens: int
    tier: Tier | None = None  # None where it was not recorded


class TraceError(UserError):
    """A file that is no trace, or a line of it that is none; the message names both."""


def read_trace(path: str | Path) -> list[TraceRow]:
    """The requests of a trace, plain or compressed by gzip, in the order of their arrival.

    Formats, told apart by the first line:
        CSV `arrived_s,prompt_tokens,output_tokens`: seconds. Without `arrived_s` these are lengths alone; other
        columns are ignored, except `tier`.
        CSV `TIMESTAMP,ContextTokens,GeneratedTokens`: the Azure LLM inference traces of 2023 and 2024 as published.
        JSON lines `timestamp` (ms), `input_length`, `output_length`: Mooncake's traces as published.
        JSON lines `arrived` (Unix s), `prompt_tokens`, `output_tokens`, `tier`: this server's request log.

    Dates and Unix times become seconds since the earliest row. Rows with an empty prompt or reply are left out: a
    reply that never began says nothing of its length. Raises TraceError for anything else that is unexpected.
    """
    path = Path(path)
    lines = _text(path).split("\n")  # not splitlines(): JSON strings may hold other line separators
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise TraceError(f"{path} is empty; a trace is {_FORMATS}")
    records = _json_records(path, lines) if first.lstrip().startswith("{") else _csv_records(path, lines)
    rows = []
    read: Callable[[Mapping[str, Any]], TraceRow] | None = None
    for number, record in records:
        try:
            read = read or _reader(record)
            row = read(record)
        except ValueError as error:
            raise TraceError(f"{path}, line {number}: {error}") from error
        if row.prompt_tokens and row.output_tokens:
            rows.append(row)
    if not rows:
        raise TraceError(f"{path} holds no request with a prompt and a reply")
    return _since_first(rows) if read in (_azure_row, _log_row) else sorted(rows, key=lambda row: row.arrived_s or 0.0)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is no text: {error.reason} at byte {error.start}") from error


def _csv_records(path: Path, lines: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by lower-case column name."""
    reader = csv.reader(lines)
    header: list[str] | None = None
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = [cell.strip().lower() for cell in cells]
        elif len(cells) != len(header):
            raise TraceError(f"{path}, line {reader.line_num}: {len(cells)} columns, but the header has {len(header)}")
        else:
            yield reader.line_num, dict(zip(header, cells, strict=True))


def _json_records(path: Path, lines: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise TraceError(f"{path}, line {number}: no JSON: {error}") from error
        if not isinstance(record, dict):
            raise TraceError(f"{path}, line {number}: no JSON object")
        yield number, record


def _reader(record: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], TraceRow]:
    """How rows like this one are read. Raises ValueError for rows of no known format."""
    for reader, columns in (
        (_azure_row, {"timestamp", "contexttokens", "generatedtokens"}),
        (_mooncake_row, {"timestamp", "input_length", "output_length"}),
        (_log_row, {"arrived", "prompt_tokens", "output_tokens"}),
        (_plain_row, {"prompt_tokens", "output_tokens"}),
    ):
        if columns <= record.keys():
            return reader
    raise ValueError(f"found {', '.join(list(record)[:8])}; a trace is {_FORMATS}")


def _plain_row(record: Mapping[str, Any]) -> TraceRow:
    arrived_s = _seconds(record, "arrived_s") if "arrived_s" in record else None
    return TraceRow(arrived_s, _count(record, "prompt_tokens"), _count(record, "output_tokens"), _tier(record))


def _azure_row(record: Mapping[str, Any]) -> TraceRow:
    written = str(record["timestamp"]).strip()
    try:
        arrived_s = datetime.fromisoformat(written).timestamp()
    except ValueError:
        raise ValueError(f"TIMESTAMP is {written!r}, no date and time") from None
    return TraceRow(arrived_s, _count(record, "contexttokens"), _count(record, "generatedtokens"))


def _mooncake_row(record: Mapping[str, Any]) -> TraceRow:
    arrived_s = _seconds(record, "timestamp") / 1000
    return TraceRow(arrived_s, _count(record, "input_length"), _count(record, "output_length"))


def _log_row(record: Mapping[str, Any]) -> TraceRow:
    arrived_s = _seconds(record, "arrived")
    return TraceRow(arrived_s, _count(record, "prompt_tokens"), _count(record, "output_tokens"), _tier(record))


def _seconds(record: Mapping[str, Any], name: str) -> float:
    value = _number(record, name)
    if not 0 <= value <= MOST:
        raise ValueError(f"{name} is {value}, and should be a time of 0 or more, {MOST:g} at most")
    return value


def _count(record: Mapping[str, Any], name: str) -> int:
    value = _number(record, name)
    if not (0 <= value <= MOST_TOKENS and value.is_integer()):
        raise ValueError(f"{name} is {record[name]!r}, and should be a whole number from 0 to {MOST_TOKENS}")
    return int(value)


def _number(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    try:
        if value is None or isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}, no number") from None


def _tier(record: Mapping[str, Any]) -> Tier | None:
    written = record.get("tier")
    if written is None or written == "":
        return None
    try:
        return Tier[str(written).strip().upper()]
    except KeyError:
        raise ValueError(f"tier is {written!r}, none of realtime, streaming, batch") from None


def _since_first(rows: list[TraceRow]) -> list[TraceRow]:
    """Rows in order of arrival, times from the earliest; log lines are written when replies end."""
    ordered = sorted((row.arrived_s or 0.0, index) for index, row in enumerate(rows))
    first_s = ordered[0][0]
    return [rows[index]._replace(arrived_s=arrived_s - first_s) for arrived_s, index in ordered]
