"""Bytes of tokens, and texts made of them."""

from __future__ import annotations

import pytest
from tokenizers import decoders, pre_tokenizers

from andes_jax.text.token_table import TokenTable, byte_level_piece, sentencepiece_piece

PIECES = [b"a", b" b", b"\xf0\x9f", b"\x98\x80", b"<end>", b"\xff"]


def test_answers_by_id() -> None:
    table = TokenTable(PIECES, [4])
    assert [table.bytes_of(token_id) for token_id in range(table.vocab_size)] == PIECES
    assert [token_id for token_id in range(table.vocab_size) if table.is_special(token_id)] == [4]
    with pytest.raises(IndexError):
        table.bytes_of(6)


def test_decodes_whole_sequences() -> None:
    table = TokenTable(PIECES, [4])
    assert table.decode([0, 1, 2, 3, 4]) == "a b\U0001f600"
    assert table.decode([0, 4], skip_special=False) == "a<end>"
    assert table.decode([2, 0, 5]) == "\ufffda\ufffd"
    assert table.decode([]) == ""


@pytest.mark.parametrize("outside", [-1, 6, 10**9])
def test_ids_outside_the_vocabulary_are_named(outside: int) -> None:
    with pytest.raises(ValueError, match=f"token id {outside} is outside the vocabulary of 6 tokens"):
        TokenTable(PIECES).decode([0, outside])


def test_one_leading_space_is_stripped_where_the_model_says_so() -> None:
    table = TokenTable([b" ", b" b", b"c", b"<s>"], [3], strip_leading_space=True)
    assert table.decode([1, 1]) == "b b"
    assert table.decode([0, 1]) == " b"
    assert table.decode([2, 0]) == "c "
    assert table.decode([3, 1]) == "b"
    assert table.decode([3, 1], skip_special=False) == "<s> b"


def test_padding_adds_special_ids_without_text() -> None:
    table = TokenTable(PIECES, [4]).padded(8)
    assert (table.vocab_size, table.bytes_of(7), table.is_special(7), table.is_special(4)) == (8, b"", True, True)
    assert table.decode([0, 7], skip_special=False) == "a"
    assert table.padded(3) is table


def test_byte_level_spelling_is_that_of_the_tokenizers_library() -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_level_piece(character) for character in alphabet) == [bytes([byte]) for byte in range(256)]
    for text in ("é ü", "你好", "\x00\n\t ", "naïve"):
        ((spelt, _),) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
        assert byte_level_piece(spelt).decode() == text == decoders.ByteLevel().decode([spelt])


@pytest.mark.parametrize("plain", ["a b", "<\uff5cend\uff5c>", "\u00a0", "你"])
def test_tokens_outside_the_byte_alphabet_are_plain_text(plain: str) -> None:
    assert byte_level_piece(plain) == plain.encode()


@pytest.mark.parametrize(
    ("token", "piece"),
    [("\u2581\u2581a", b"  a"), ("<0x0A>", b"\n"), ("<0xfF>", b"\xff"), ("<0xZZ>", b"<0xZZ>"), ("<0x0A", b"<0x0A")],
)
def test_sentencepiece_spelling(token: str, piece: bytes) -> None:
    assert sentencepiece_piece(token) == piece
