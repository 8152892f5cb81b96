"""Which documents the arguments of a command name: files, folders, globs, JSON lines and standard input."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from andes_jax.batch_lines import raw_lines
from andes_jax.failure import UsageError
from andes_jax.jobs.documents.failure import UnreadableError
from andes_jax.jobs.documents.formats import READERS, text_of, tidy
from andes_jax.strict_json import parse_json

LINES = (".jsonl", ".ndjson")
STANDARD_INPUT = "-"
MAX_LINE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Document:
    """A document that was read, or what kept it from being read."""

    name: str  # its path; of a line, the path with the line's id or number after #
    text: str | None
    error: str | None = None

    @property
    def sha256(self) -> str:
        """The hash of its text, in hexadecimal digits."""
        return hashlib.sha256((self.text or "").encode("utf-8", "surrogatepass")).hexdigest()


def find_files(paths: Iterable[str], output: Path) -> list[Path | None]:
    """The files that arguments name, each once, in the order of the arguments; None is standard input.

    Folders are searched through, in the order of names, for formats that are known; `output`, which an earlier run may
    have left there, is no document. Raises UsageError for an argument that names nothing, or `output` itself.
    """
    found: dict[Path | None, None] = {}
    for each in paths:
        if each == STANDARD_INPUT:
            found[None] = None
            continue
        there = [each] if Path(each).exists() else sorted(glob.glob(each, recursive=True))
        matched = [Path(name) for name in there]
        if not matched:
            raise UsageError(f"{each} names no file or folder")
        for path in matched:
            files = _inside(path) if path.is_dir() else [path]
            found |= dict.fromkeys(file for file in files if file.resolve() != output.resolve())
        if there == [each] and Path(each).resolve() == output.resolve():
            raise UsageError(f"{each} is named both as a document and as --output")
    if not found:
        raise UsageError("no documents: the folders hold no files of a known format")
    return list(found)


def _inside(folder: Path) -> list[Path]:
    """Files of known formats in a folder and below; what is hidden stays so."""
    below = (path for path in folder.rglob("*") if path.suffix.lower() in (*READERS, *LINES) and path.is_file())
    return sorted(path for path in below if not any(part.startswith(".") for part in path.relative_to(folder).parts))


@dataclass(frozen=True, slots=True)
class Source:
    """A document that is still to be read: a file, or one line of it."""

    path: Path | None  # None: `data` is what came on standard input
    line: int | None = None  # its number, from 1
    data: bytes | None = None  # of the line; None for one that is too large

    def read(self, text_field: str) -> Document:
        """Read and parse it; what cannot be read is a document with an error."""
        if self.line is not None:
            return _line(f"{self.path}#{self.line}", str(self.path), self.data, text_field)
        name = STANDARD_INPUT if self.path is None else str(self.path)
        suffix = "" if self.path is None else self.path.suffix.lower()
        try:
            data = self.data if self.path is None else self.path.read_bytes()
            text = text_of(data or b"", suffix if suffix in READERS else ".txt")
        except OSError as error:
            return Document(name, None, error.strerror or str(error))
        except UnreadableError as error:
            return Document(name, None, str(error))
        return _checked(name, text)


def sources_of(files: Iterable[Path | None], standard_input: bytes = b"") -> Iterator[Source]:
    """The documents of these files; lines of JSON are read as they are taken.

    A file of lines that cannot be read is one document, whose `read` says why.
    """
    for path in files:
        if path is None:
            yield Source(None, data=standard_input)
        elif path.suffix.lower() in LINES and path.is_file() and os.access(path, os.R_OK):
            with open(path, "rb") as file:
                for number, raw in raw_lines(file, MAX_LINE_BYTES):
                    yield Source(path, number, raw)
        else:
            yield Source(path)


def _line(name: str, path: str, raw: bytes | None, text_field: str) -> Document:
    if raw is None:
        return Document(name, None, f"its line is larger than {MAX_LINE_BYTES} bytes")
    try:
        value = parse_json(raw)
    except ValueError as error:
        return Document(name, None, f"its line is not valid JSON: {error}")
    if not isinstance(value, dict):
        return Document(name, None, "its line is no JSON object")
    if isinstance(value.get("id"), str | int) and value["id"] != "":
        name = f"{path}#{value['id']}"
    text = value.get(text_field)
    if not isinstance(text, str):
        return Document(name, None, f"its line has no text in {text_field!r}; --text-field names another")
    return _checked(name, tidy(text))


def _checked(name: str, text: str) -> Document:
    return Document(name, text) if text else Document(name, None, "it is empty")
