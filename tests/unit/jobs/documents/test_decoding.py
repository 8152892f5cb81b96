"""Text from bytes of every encoding."""

from __future__ import annotations

import codecs

import pytest

from andes_jax.jobs.documents.decoding import decode
from andes_jax.jobs.documents.failure import UnreadableError

SIMPLE = "双宫能团活性艳蓝在固色浴中凝聚性小，匀染性好，且吸尽率和固色率高，提升性和重现性好。"
TRADITIONAL = "今天的會議討論了區塊鏈技術的應用前景。我們認為數位資產的發展將會帶來新的機會與挑戰。"
FRENCH = "La raison ne connaît point l'été ; où êtes-vous, forêt ? Après tout, ça va."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (SIMPLE, "utf-8"), (SIMPLE, "utf-8-sig"), (SIMPLE, "utf-16"), (SIMPLE, "utf-32"), (SIMPLE, "gb18030"),
        (TRADITIONAL, "big5"), (FRENCH, "latin-1"), (FRENCH, "cp1252"), (FRENCH, "utf-16-le"), (FRENCH, "utf-16-be"),
        ("plain", "ascii"), ("", "ascii"),
    ],
)  # fmt: skip
def test_encodings_are_found(text, encoding):
    assert decode(text.encode(encoding)) == text


def test_a_mark_decides_and_is_no_text():
    assert decode(codecs.BOM_UTF16_BE + SIMPLE.encode("utf-16-be")) == SIMPLE


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\0\0\0\x01\xff\xfe\0\0\0" * 4, codecs.BOM_UTF8 + b"\xff", b"a\0" + b"b" * 90]
)
def test_what_is_no_text_is_told(data):
    with pytest.raises(UnreadableError, match="binary|not valid"):
        decode(data)


def test_every_other_byte_is_text_of_some_kind():
    assert decode(bytes(each for each in range(1, 256) if each not in (0x81, 0x8D)))
