"""Cuts texts where it hurts least: between paragraphs, else lines, sentences, clauses, words, else anywhere."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Count = Callable[[str], Awaitable[int]]

_PARAGRAPH = re.compile(r"(?<=\n)[^\S\n]*\n+")
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"[。！？!?；…]+[”’」』）)\"']*\s*|(?<=[^\s.][^\s.])\.[\"')\]]*\s+")
_CLAUSE = re.compile(r"[，、：,;:]+\s*")
_WORD = re.compile(r"\s+")
_LEVELS = (_PARAGRAPH, _LINE, _SENTENCE, _CLAUSE, _WORD)


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a text. Pieces put together again are the text."""

    text: str
    tokens: int


async def pieces_of(text: str, most_tokens: int, count: Count) -> list[Piece]:
    """A text in pieces of at most so many tokens each, cut at as few kinds of places as possible."""
    return await _pieces(text, most_tokens, count, 0)


async def _pieces(text: str, most_tokens: int, count: Count, level: int) -> list[Piece]:
    tokens = await count(text)
    if tokens <= most_tokens or len(text) == 1:
        return [Piece(text, tokens)]
    parts = [text]
    while len(parts) == 1:
        parts = cut(text, _LEVELS[level]) if level < len(_LEVELS) else [text[: len(text) // 2], text[len(text) // 2 :]]
        level += level < len(_LEVELS)
    found = []
    for each in parts:
        found += await _pieces(each, most_tokens, count, level)
    return found


def cut(text: str, ends: re.Pattern[str]) -> list[str]:
    """A text cut behind every match; the parts put together are the text."""
    places = [0, *(match.end() for match in ends.finditer(text)), len(text)]
    return [text[start:end] for start, end in zip(places, places[1:], strict=False) if end > start]


def sentences(text: str) -> list[str]:
    """A text cut behind sentences and lines."""
    return [part for line in cut(text, _LINE) for part in cut(line, _SENTENCE)]


def whole_sentences(text: str) -> str:
    """A text that was broken off, without its last sentence where more than half is left; else as it is."""
    parts = sentences(text)
    kept = "".join(parts[:-1]).rstrip()
    return kept if len(kept) * 2 > len(text) else text
