"""What is refused, and in which words. More bad texts are in tests/server/test_body.py."""

from __future__ import annotations

import pytest

from andes_jax.strict_json import parse_json


def test_values():
    assert parse_json(b' {"a": [1, 2.5, null, "\xc3\xa9"]} ') == {"a": [1, 2.5, None, "é"]}
    assert parse_json(b"3") == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "empty"),
        (b"{", "at byte"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[NaN]", "."),
        (b'"\xff"', "."),
        (b"[" * 100_000, "."),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(ValueError, match=why) as raised:
        parse_json(text)
    assert len(str(raised.value)) <= 200
