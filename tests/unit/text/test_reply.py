"""Text of a reply, piece by piece."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from andes_jax.text.reply import Piece, ReplyText
from andes_jax.text.token_table import TokenTable
from andes_jax.text.tokenizer import Tokenizer

PIECES = [b"hello", b" world", b"\xf0\x9f", b"\x98\x80", b"<|im_end|>", b"    ", b"\n", b"\xff", b"ST", b"OP"]
TABLE = TokenTable(PIECES, [4])
HELLO, WORLD, EMOJI_1, EMOJI_2, END, SPACES, NEWLINE, BROKEN, ST, OP = range(len(PIECES))


def test_whole_tokens_come_out_at_once() -> None:
    reply = ReplyText(TABLE)
    assert reply.push([HELLO]) == Piece("hello", False, 1)
    assert reply.push([WORLD, SPACES, NEWLINE]) == Piece(" world    \n", False, 3)
    assert reply.push([]) == Piece("", False, 0)
    assert reply.finish() == ""


def test_half_a_character_waits_for_the_other() -> None:
    reply = ReplyText(TABLE)
    assert reply.push([EMOJI_1]) == Piece("", False, 1)
    assert reply.push([EMOJI_2]) == Piece("\U0001f600", False, 1)


def test_half_a_character_is_replaced_when_another_begins_or_none_comes() -> None:
    reply = ReplyText(TABLE)
    assert reply.push([EMOJI_1, HELLO]).text == "\ufffdhello"
    assert reply.push([BROKEN]).text == "\ufffd"
    assert reply.push([EMOJI_1]).text == ""
    assert reply.finish() == "\ufffd"
    assert reply.finish() == ""


def test_special_tokens_are_left_out_or_shown() -> None:
    assert ReplyText(TABLE).push([HELLO, END]) == Piece("hello", False, 2)
    assert ReplyText(TABLE, skip_special=False).push([HELLO, END]).text == "hello<|im_end|>"
    assert ReplyText(TABLE, ("<|im",), skip_special=False).push([HELLO, END]) == Piece("hello", True, 2)
    assert ReplyText(TABLE, ("<|im",)).push([HELLO, END]) == Piece("hello", False, 2)


def test_a_stop_string_over_several_tokens_is_held_back_and_cut() -> None:
    reply = ReplyText(TABLE, ("STOP",))
    assert reply.push([HELLO, ST]) == Piece("hello", False, 2)
    assert reply.push([OP, WORLD]) == Piece("", True, 1)
    assert reply.stopped
    assert reply.push([HELLO]) == Piece("", True, 0)
    assert reply.finish() == ""


def test_held_text_goes_with_what_follows_or_with_the_end() -> None:
    reply = ReplyText(TABLE, ("STOP",))
    assert reply.push([ST]).text == ""
    assert reply.push([HELLO]).text == "SThello"
    assert reply.push([ST, EMOJI_1]).text == ""
    assert reply.finish() == "ST\ufffd"
    assert reply.finish() == ""


def test_a_stop_string_that_the_last_broken_character_completes() -> None:
    reply = ReplyText(TABLE, ("world\ufffd",))
    assert reply.push([HELLO, WORLD, EMOJI_1]).text == "hello "
    assert reply.finish() == "" and reply.stopped


def test_a_stop_string_waits_for_the_whole_character() -> None:
    reply = ReplyText(TABLE, ("\U0001f600",))
    assert reply.push([HELLO, EMOJI_1]) == Piece("hello", False, 2)
    assert reply.push([EMOJI_2, WORLD]) == Piece("", True, 1)


def test_the_stop_string_complete_first_cuts() -> None:
    assert ReplyText(TABLE, ("world", "o w")).push([HELLO, WORLD]) == Piece("hell", True, 2)
    assert ReplyText(TABLE, ("nope", "l")).push([HELLO, WORLD]) == Piece("he", True, 1)


def test_ids_past_the_table_have_no_text() -> None:
    assert ReplyText(TABLE).push([HELLO, 99, WORLD]) == Piece("hello world", False, 3)
    assert ReplyText(TABLE, ("x",)).push([99]) == Piece("", False, 1)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        ReplyText(TABLE, ("",))


def test_sentencepiece_replies_lose_the_space_that_a_decode_of_them_loses() -> None:
    table = TokenTable([b" Hi", b" there", b"<s>", b""], [2], strip_leading_space=True)
    for ids in ([0, 1], [2, 0], [3, 0], [0]):
        for skip in (True, False):
            reply = ReplyText(table, skip_special=skip)
            assert "".join(reply.push([token_id]).text for token_id in ids) == table.decode(ids, skip_special=skip)
    assert ReplyText(table, (" Hi",)).push([0, 1]) == Piece("Hi there", False, 2)


@pytest.mark.parametrize("name", ["llama-spm", "gpt-2", "qwen2"])
@pytest.mark.parametrize(
    "text", ["한국어 텍스트 🦙👩‍👩‍👧‍👦", "你好，世界", "def f(x):\n    return  x\n\n\t#  two", "  lead"]
)
def test_real_tokens_stream_to_the_very_text(name: str, text: str, ggml_tokenizer: Callable[[str], Tokenizer]) -> None:
    tokenizer = ggml_tokenizer(name)
    ids = tokenizer.encode(text, add_special=False)
    reply = ReplyText(tokenizer.table)
    pieces = [reply.push([token_id]).text for token_id in ids]
    assert "\ufffd" not in "".join(pieces)
    assert "".join(pieces) + reply.finish() == tokenizer.decode(ids) == text
