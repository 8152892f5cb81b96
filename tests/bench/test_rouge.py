"""ROUGE by hand."""

from __future__ import annotations

import pytest

from tests.bench.rouge import lead, length_of, longest_common, rouge


def test_words():
    scores = rouge("The cat sat on the mat.", ["the cat was on the mat"])
    assert scores == pytest.approx({"1": 10 / 12, "2": 6 / 10, "L": 10 / 12})


def test_chinese_by_characters_and_the_best_reference():
    assert rouge("今天下雨", ["今天下雪", "完全不同"]) == pytest.approx({"1": 6 / 8, "2": 4 / 6, "L": 6 / 8})
    assert rouge("", ["a"]) == {"1": 0, "2": 0, "L": 0} and rouge("a", ["a"])["2"] == 0


def test_longest_common_subsequence():
    assert longest_common("abcbdab", "bdcaba") == 4


def test_leads():
    assert lead("One two, three.", 2) == "One two," and lead("今天GDP，增长了", 3) == "今天GDP，"
    assert lead("今天", 9) == "今天" and length_of("今天 GDP!") == 3
