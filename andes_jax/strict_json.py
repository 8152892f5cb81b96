"""JSON that is read more strictly than it asks: what several readers could take in different ways is refused."""

from __future__ import annotations

import json
from typing import Any

import orjson


def parse_json(text: bytes) -> Any:
    """The value; raises ValueError with the reason in words for whoever wrote the text.

    Invalid UTF-8, lone surrogates, NaN, infinities, numbers beyond a double, repeated names and nesting past Python's
    recursion limit are all refused.
    """
    if not text.strip():
        raise ValueError("it is empty")
    try:
        orjson.loads(text)  # checks the encoding and numbers, which the reader below is lax about
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at byte {error.pos}") from None
    except ValueError as error:
        raise ValueError(str(error)[:120]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
