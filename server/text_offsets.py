"""Where in a text each of its tokens begins. A token that completes no character begins where the next one will."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from server.context import TokenTable

MOST_SPACES = 64  # bytes that a token may have swallowed unseen


class TextOffsets:
    """Offsets in a text made of tokens, by the rules of `ReplyText`."""

    def __init__(self, table: TokenTable, *, skip_special: bool, start: int = 0) -> None:
        """`start` is the offset, in characters, at which the text begins."""
        self._table = table
        self._skip_special = skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = table.strip_leading_space
        self._offset = start

    def next(self, token_id: int) -> int:
        """The offset of the next token, in characters."""
        begun = self._offset
        if not (self._skip_special and self._table.is_special(token_id)):
            text = self._decoder.decode(self._table.bytes_of(token_id))
            if self._at_start and text:
                self._at_start = False
                text = text.removeprefix(" ")
            self._offset += len(text)
        return begun


def offsets_in(text: str, ids: Sequence[int], table: TokenTable) -> list[int]:
    """Offsets of the tokens that a tokenizer made of a text.

    Tokens are found in the text: special ones where it spells them, others with or without the space or the spaces
    that tokenizers put before words and swallow around special tokens. One that is not there, such as BOS, is empty.
    """
    data = text.encode()
    decoder = codecs.getincrementaldecoder("utf-8")()
    offsets: list[int] = []
    at = offset = 0
    for token_id in ids:
        piece = table.bytes_of(token_id)
        start = _place(data, at, piece)
        if start is not None:
            size = len(piece)
        elif piece[:1] == b" " and data.startswith(piece[1:], at):
            start, size = at, len(piece) - 1
        else:
            start, size = at, 0 if table.is_special(token_id) else len(piece)
        offset += len(decoder.decode(data[at:start]))
        offsets.append(offset)
        offset += len(decoder.decode(data[start : start + size]))
        at = min(start + size, len(data))
    return offsets


def _place(data: bytes, at: int, piece: bytes) -> int | None:
    """Where the piece begins, at once or after spaces."""
    if data.startswith(piece, at):
        return at
    start = at
    while start < at + MOST_SPACES and data[start : start + 1].isspace():
        start += 1
    return start if start > at and data.startswith(piece, start) else None
