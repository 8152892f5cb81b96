"""Texts are cut at the best places, and nothing of them is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.jobs.summaries.splitting import pieces_of, sentences, whole_sentences
from tests.unit.jobs.summaries.parts import count, story


async def length(text: str) -> int:
    return len(text)


async def texts(text, most, by=count):
    return [piece.text for piece in await pieces_of(text, most, by)]


async def test_paragraphs_first_then_sentences_then_words():
    text = story(2, 2)
    first, second = text.split("\n\n")
    assert await texts(text, 100) == [text]
    assert await texts(text, 16) == [first + "\n\n", second]
    assert await texts(first, 8) == ["Sentence 0 of paragraph 0 is here. ", "Sentence 1 of paragraph 0 is here."]
    assert await texts("one two three", 2) == ["one ", "two ", "three"]


async def test_chinese_sentences_and_clauses():
    assert await texts("今天下雨。我们不去了！好吗？好。", 6) == ["今天下雨。", "我们不去了！", "好吗？", "好。"]
    assert await texts("今天下雨，所以我们不去", 8) == ["今天下雨，", "所以我们不去"]
    assert await texts("天" * 10, 3) == ["天天", "天天天", "天天", "天天天"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It is 3.14. Yes.", ["It is 3.14. ", "Yes."]), ("J. Smith came. He", ["J. Smith came. ", "He"]),
        ("“好。”他说。", ["“好。”", "他说。"]), ("One\nTwo", ["One\n", "Two"]), ("", []),
    ],
)  # fmt: skip
def test_sentences(text, parts):
    assert sentences(text) == parts


@given(st.text("a天 .。\n,，!", max_size=60), st.integers(1, 9))
async def test_pieces_are_the_text_and_no_larger_than_said(text, most):
    pieces = await pieces_of(text, most, length)
    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.tokens == len(piece.text) <= most for piece in pieces)


def test_what_was_broken_off_ends_with_a_whole_sentence_where_enough_is_left():
    assert whole_sentences("It began. It went on well. And th") == "It began. It went on well."
    assert whole_sentences("Yes. This sentence is much longer and br") == "Yes. This sentence is much longer and br"
    assert whole_sentences("今天下雨。我们没有去公园。后来") == "今天下雨。我们没有去公园。"
