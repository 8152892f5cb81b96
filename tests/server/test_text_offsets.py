"""Offsets point at their token's text, in the very text that is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.text.reply import ReplyText
from andes_jax.text.token_table import TokenTable
from server.text_offsets import TextOffsets, offsets_in
from tests.server.parts import completion, mk_context

PIECES = ["<|im_start|>", "hi", " you", " ", "é", " hi", "", "<s>"]
TABLE = TokenTable([*(piece.encode() for piece in PIECES), b"\xe7", b"\x95", b"\x8c", b"\xff"], special_ids=[0, 6, 7])
SENTENCEPIECE = TokenTable(TABLE.pieces(skip_special=False), special_ids=[0, 6, 7], strip_leading_space=True)


@pytest.mark.parametrize(
    ("text", "ids", "offsets"),
    [
        ("<|im_start|>hi you", [0, 1, 2], [0, 12, 14]),
        ("hi you", [7, 1, 2], [0, 0, 2]),  # BOS came on top
        ("<s>hi", [7, 1], [0, 3]),
        ("hi you", [7, 5, 2], [0, 0, 2]),  # SentencePiece puts a space before the text
        (" hi you", [5, 2], [0, 3]),
        ("é界hi", [4, 8, 9, 10, 1], [0, 1, 1, 1, 2]),
        ("hi <|im_start|> \n hi", [1, 0, 1], [0, 3, 18]),  # a special token that swallows the spaces around it
        ("", [7], [0]),
    ],
)
def test_tokens_are_found_in_a_given_text(text, ids, offsets):
    assert offsets_in(text, ids, TABLE) == offsets


@pytest.mark.parametrize(
    ("skip", "ids", "offsets"), [(False, [0, 0, 1], [0, 12, 24]), (True, [0, 0, 1], [0, 0, 0]), (True, [5, 2], [0, 3])]
)
def test_special_tokens_count_where_they_are_shown(skip, ids, offsets):
    counted = TextOffsets(TABLE, skip_special=skip)
    assert [counted.next(each) for each in ids] == offsets


@given(
    st.lists(st.integers(0, 11), max_size=12), st.booleans(), st.sampled_from([TABLE, SENTENCEPIECE]), st.integers(0, 9)
)
def test_offsets_follow_the_reply_s_text(ids, skip, table, start):
    reply, counted, length = ReplyText(table, (), skip), TextOffsets(table, skip_special=skip, start=start), start
    for token_id in ids:
        assert counted.next(token_id) == length
        length += len(reply.push([token_id]).text)


@pytest.mark.parametrize("asked", [{"echo": True}, {"skip_special_tokens": False}, {}])
async def test_over_http(connect, asked):
    """Through the whole server, with a table of its own where <eos> has five characters."""
    context = mk_context(lambda request: (256, 97, 256, 98))
    body = completion([104, 256, 105], logprobs=0, max_tokens=4, ignore_eos=True, **asked)
    [choice] = (await connect(context).post("/v1/completions", json=body)).json()["choices"]
    lists = choice["logprobs"]
    assert len(lists["tokens"]) == (3 if "echo" in asked else 0) + (4 if "skip_special_tokens" in asked else 2)
    for token, offset in zip(lists["tokens"], lists["text_offset"], strict=True):
        if token != "<eos>" or "skip_special_tokens" in asked:
            assert choice["text"].startswith(token, offset)
