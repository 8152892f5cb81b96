"""What a summary job writes: a row for each document, as JSON lines or as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.summarizer import Summary

Row = Mapping[str, Any]


def summary_row(
    summary: Summary, *, source_hash: str, model: str, options: SummaryOptions, seconds: float
) -> dict[str, Any]:
    """The row of a summary, without the name of its document; `seconds` were spent on it."""
    return {
        "source_sha256": source_hash,
        "summary": summary.text,
        "finish": summary.finish,
        "model": model,
        "settings": options.as_json(),
        "chunks": summary.chunks,
        "rounds": summary.rounds,
        "tokens": {
            "source": summary.source_tokens,
            "prompt": summary.prompt_tokens,
            "completion": summary.completion_tokens,
        },
        "calls": summary.calls,
        "seconds": round(seconds, 3),
        "error": None,
        "notes": summary.notes,
    }


def error_row(code: str, message: str, *, source_hash: str | None = None) -> dict[str, Any]:
    """The row of a document without a summary; without a hash where it could not be read."""
    return {"source_sha256": source_hash, "summary": None, "error": {"code": code, "message": message}}


def json_lines(rows: Iterator[tuple[str, Row]], trace: bool) -> Iterator[bytes]:
    """Rows with the names of their documents; notes only for those who trace."""
    for name, row in rows:
        shown = {key: value for key, value in row.items() if trace or key != "notes"}
        yield orjson.dumps({"source": name, **shown}) + b"\n"


def markdown(rows: Iterator[tuple[str, Row]], trace: bool) -> Iterator[bytes]:
    """A page with a section for each document."""
    yield b"# Summaries\n"
    for name, row in rows:
        yield f"\n## {_inline(name)}\n\n".encode()
        if row["error"] is not None:
            yield f"> Not summarized: {_inline(row['error']['message'])}\n".encode()
            continue
        yield f"{row['summary']}\n\n".encode()
        tokens, words = row["tokens"]["source"], "1 chunk" if row["chunks"] == 1 else f"{row['chunks']} chunks"
        yield f"*{_inline(row['model'])}, {tokens} tokens in {words}*\n".encode()
        if trace and row["notes"]:
            yield b"\n### Notes\n\n"
            for number, note in enumerate(row["notes"], 1):
                yield f"{number}. {_inline(note['text'])}\n".encode()


def _inline(text: str) -> str:
    """A text on one line, without marks that Markdown would take for its own."""
    line = " ".join(text.split())
    return "".join(f"\\{each}" if each in "\\`*_[]<>#|" else each for each in line)
