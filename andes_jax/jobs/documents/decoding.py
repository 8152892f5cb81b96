"""Text from bytes whose encoding nobody tells: marks first, then UTF-8, then what charset-normalizer finds."""

from __future__ import annotations

import codecs

from charset_normalizer import from_bytes

from andes_jax.jobs.documents.failure import UnreadableError

_MARKS = (  # the longer ones first, as one begins with another
    (codecs.BOM_UTF32_LE, "utf_32"),
    (codecs.BOM_UTF32_BE, "utf_32"),
    (codecs.BOM_UTF8, "utf_8_sig"),
    (codecs.BOM_UTF16_LE, "utf_16"),
    (codecs.BOM_UTF16_BE, "utf_16"),
)
_CANDIDATES = ["gb18030", "big5", "cp1252", "latin_1"]
_SAMPLE_BYTES = 64 * 1024  # that an encoding is found from
_UTF16_ZEROS = 0.2  # share of zero bytes at every second place from which on text is UTF-16 without a mark


def decode(data: bytes) -> str:
    """The text. Raises UnreadableError for what is no text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data, encoding)
    if b"\0" in data:
        return _strict(data, _utf16_order(data))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _detected(data)


def _utf16_order(data: bytes) -> str:
    """The byte order of UTF-16 without a mark, by where the zeros of its ASCII characters are."""
    even, odd = data[::2].count(0), data[1::2].count(0)
    if max(even, odd) < len(data) / 2 * _UTF16_ZEROS or min(even, odd) > max(even, odd) / 10:
        raise UnreadableError("it is binary, not text")
    return "utf_16_be" if even > odd else "utf_16_le"


def _detected(data: bytes) -> str:
    best = from_bytes(data[:_SAMPLE_BYTES], cp_isolation=_CANDIDATES).best()
    order = ([] if best is None else [best.encoding]) + ["gb18030", "big5", "cp1252", "latin_1"]
    for encoding in order:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin_1 takes every byte")


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is not valid {encoding.replace('_', '-').upper()}: {error.reason}") from None
