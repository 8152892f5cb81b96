"""Sizes as people write them."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {
    "": 1, "b": 1,
    "k": 2**10, "kb": 10**3, "kib": 2**10,
    "m": 2**20, "mb": 10**6, "mib": 2**20,
    "g": 2**30, "gb": 10**9, "gib": 2**30,
    "t": 2**40, "tb": 10**12, "tib": 2**40,
}  # fmt: skip
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def parse_byte_size(value: Any) -> Any:
    """Bytes of a size such as 1GiB, 500MB, 2G (binary) or 4096; what is not text passes through.

    Raises ValueError when the text is no size.
    """
    if not isinstance(value, str):
        return value
    match = _WRITTEN.fullmatch(value)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("should be a size such as 512MiB, 1.5GiB or 4096")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def format_byte_size(size: int) -> str:
    """A size for people: 1.5 GiB."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


ByteSize = Annotated[int, BeforeValidator(parse_byte_size)]
