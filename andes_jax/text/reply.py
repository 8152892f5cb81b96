"""Turns the ids of one reply into text while they are drawn: the one meaning of stop strings for all front ends."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import NamedTuple

from andes_jax.text.stop import StopFinder
from andes_jax.text.token_table import TokenTable


class Piece(NamedTuple):
    """What one push added to the reply."""

    text: str  # whole characters; empty while a character or a possible stop string is incomplete
    stopped: bool  # a stop string was found: the text is complete and cut just before it
    used: int  # how many of the pushed ids belong to the reply, the one that completed the stop string included


class ReplyText:
    """Text of one reply: pieces whose concatenation is `table.decode` of the ids, cut before the first stop string.

    Characters split over tokens wait for their last byte; bytes that are no UTF-8 become U+FFFD just as in a decode of
    the whole. For SentencePiece tables with `strip_leading_space` the reply loses one leading space, as it does when
    decoded alone. Stop strings are sought in this text, so in special tokens only where these are shown. Ids past the
    table, which a padded model may draw, have no text. Not for use by several threads at once.
    """

    __slots__ = ("_at_start", "_finder", "_held", "_pending", "_pieces", "_stopped", "_texts")

    def __init__(self, table: TokenTable, stop: Sequence[str] = (), skip_special: bool = True) -> None:
        """Raises ValueError for an empty stop string."""
        self._texts = table.texts(skip_special=skip_special)
        self._pieces = table.pieces(skip_special=skip_special)
        self._finder = StopFinder(stop) if stop else None
        self._pending = b""  # bytes of an incomplete character
        self._held = ""  # text that may be the beginning of a stop string
        self._at_start = table.strip_leading_space
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found; no more text comes then."""
        return self._stopped

    def push(self, ids: Sequence[int]) -> Piece:
        """Text that these ids complete, in order; nothing once stopped."""
        if self._stopped:
            return Piece("", True, 0)
        finder = self._finder
        if finder is None:
            if len(ids) == 1:
                return Piece(self._decode(ids[0]), False, 1)
            return Piece("".join([self._decode(token_id) for token_id in ids]), False, len(ids))
        text = ""
        for index, token_id in enumerate(ids):
            text += self._filter(finder, self._decode(token_id))
            if self._stopped:
                return Piece(text, True, index + 1)
        return Piece(text, False, len(ids))

    def finish(self) -> str:
        """The text still held back, once no more ids come; an incomplete character becomes U+FFFD."""
        if self._stopped:
            return ""
        text = self._pending.decode("utf-8", "replace")
        self._pending = b""
        if self._finder is None:
            return text
        text = self._filter(self._finder, text)
        if not self._stopped:
            text, self._held = text + self._held, ""
        return text

    def _decode(self, token_id: int) -> str:
        """The characters that one token completes."""
        try:
            text = self._texts[token_id]
        except IndexError:
            return ""
        if text is None or self._pending:
            data = self._pending + self._pieces[token_id]
            text, consumed = codecs.utf_8_decode(data, "replace", False)
            if _is_half_surrogate(data[consumed:]):
                text, consumed = data.decode("utf-8", "replace"), len(data)
            self._pending = data[consumed:]
        if self._at_start and text:
            self._at_start = False
            return text.removeprefix(" ")
        return text

    def _filter(self, finder: StopFinder, text: str) -> str:
        """What of the held and the new text can be shown."""
        if not text:
            return ""
        match = finder.feed(text)
        if match is None and finder.quiet and not self._held:
            return text
        known = self._held + text
        if match is not None:
            self._stopped = True
            end = len(self._held) + match.end - match.length
            self._held = ""
            return known[:end]
        end = len(known) - finder.held
        self._held = known[end:]
        return known[:end]


def _is_half_surrogate(pending: bytes) -> bool:
    """Two bytes that Python's decoder waits on, though nothing can follow that makes them a character."""
    return len(pending) == 2 and pending[0] == 0xED and pending[1] >= 0xA0
