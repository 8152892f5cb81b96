"""Chunks of a long text: pieces packed up to a number of tokens, about equal, each with its predecessor's end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from andes_jax.jobs.summaries.splitting import Count, Piece, pieces_of, sentences

_PARTS = 4  # of a chunk, that a paragraph may fill before it is cut: larger pieces leave more of a chunk empty


@dataclass(frozen=True, slots=True)
class Chunk:
    """What the model reads at once."""

    text: str
    tokens: int  # as counted piece by piece
    overlap: int  # of them, which repeat the end of the chunk before


async def chunks_of(text: str, most_tokens: int, overlap: int, count: Count) -> list[Chunk]:
    """A text in chunks of at most `most_tokens`, of which the first `overlap` or fewer repeat whole sentences."""
    fresh = most_tokens - overlap
    pieces = await pieces_of(text, max(1, fresh // _PARTS), count)
    groups = pack(pieces, fresh)
    chunks: list[Chunk] = []
    for number, group in enumerate(groups):
        own, tokens = "".join(piece.text for piece in group), sum(piece.tokens for piece in group)
        tail, tail_tokens = "", 0
        if number:
            tail, tail_tokens = await _end_of("".join(piece.text for piece in groups[number - 1]), overlap, count)
        chunks.append(Chunk(tail + own, tail_tokens + tokens, tail_tokens))
    return chunks


def pack(pieces: Sequence[Piece], most_tokens: int) -> list[list[Piece]]:
    """Neighbours in groups of at most so many tokens, as few and as equal as may be."""
    total = sum(piece.tokens for piece in pieces)
    aim = total / max(1, math.ceil(total / most_tokens))
    groups: list[list[Piece]] = []
    held = most_tokens
    for piece in pieces:
        if held + piece.tokens > most_tokens or held >= aim:
            groups.append([])
            held = 0
        groups[-1].append(piece)
        held += piece.tokens
    return groups


async def _end_of(text: str, most_tokens: int, count: Count) -> tuple[str, int]:
    """The last whole sentences of a text that have at most so many tokens together, and how many these are."""
    tail, tokens = "", 0
    for sentence in reversed(sentences(text)):
        more = await count(sentence)
        if tokens + more > most_tokens:
            break
        tail, tokens = sentence + tail, tokens + more
    return (tail, tokens) if tokens else ("", 0)
