"""Bytes of every token: all that turning ids into text needs, at any thread's hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SPACE_MARK = "\u2581"  # what SentencePiece writes for a space


class TokenTable:
    """Text of tokens as bytes, by id.

    A text is the concatenation of its tokens' bytes decoded as UTF-8, each maximal invalid part replaced by U+FFFD;
    where `strip_leading_space` is set, one space is then cut from its start. A table never changes once made.
    """

    def __init__(self, pieces: Sequence[bytes], special_ids: Iterable[int] = (), *, strip_leading_space: bool = False):
        """Bytes by id; ids whose text is left out unless asked for; whether texts lose one leading space."""
        self._pieces = list(pieces)
        self._special = frozenset(special_ids)
        self.strip_leading_space = strip_leading_space
        self._visible = [b"" if index in self._special else piece for index, piece in enumerate(self._pieces)]
        self._texts = [_text_or_none(piece) for piece in self._pieces]
        self._visible_texts = ["" if index in self._special else text for index, text in enumerate(self._texts)]

    @property
    def vocab_size(self) -> int:
        """Number of ids, each below it."""
        return len(self._pieces)

    def bytes_of(self, token_id: int) -> bytes:
        """Bytes of one token, also of a special one; raises IndexError for an id past the vocabulary."""
        return self._pieces[token_id]

    def is_special(self, token_id: int) -> bool:
        """Whether a token steers the model and is left out of texts."""
        return token_id in self._special

    def pieces(self, *, skip_special: bool) -> list[bytes]:
        """Bytes by id, empty for special ones when these are skipped. The table's own list: read it only."""
        return self._visible if skip_special else self._pieces

    def texts(self, *, skip_special: bool) -> list[str | None]:
        """Text by id, None where a token's bytes are not whole characters. The table's own list: read it only."""
        return self._visible_texts if skip_special else self._texts

    def padded(self, vocab_size: int) -> TokenTable:
        """This table with special ids without text up to `vocab_size`: models round their vocabulary up."""
        missing = range(self.vocab_size, vocab_size)
        if not missing:
            return self
        pieces = self._pieces + [b""] * len(missing)
        return TokenTable(pieces, self._special.union(missing), strip_leading_space=self.strip_leading_space)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of a whole sequence; raises ValueError for ids outside the vocabulary."""
        pieces = self.pieces(skip_special=skip_special)
        ids = list(ids)
        outside = next((token_id for token_id in ids if not 0 <= token_id < len(pieces)), None)
        if outside is not None:
            raise ValueError(f"token id {outside} is outside the vocabulary of {len(pieces)} tokens")
        text = b"".join([pieces[token_id] for token_id in ids]).decode("utf-8", "replace")
        return text[1:] if self.strip_leading_space and text.startswith(" ") else text


def _text_or_none(piece: bytes) -> str | None:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _unicode_of_bytes() -> dict[int, int]:
    """The printable stand-in of each byte in byte-level BPE vocabularies (GPT-2)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    return {byte: byte for byte in shown} | {byte: 256 + index for index, byte in enumerate(hidden)}


_BYTE_OF_UNICODE = {code: byte for byte, code in _unicode_of_bytes().items()}
# Latin-1 characters that stand for no byte are moved out of reach, so that a token holding one is taken for plain text.
_TO_LATIN_1 = {code: 0xFFFF for code in range(256)} | _BYTE_OF_UNICODE


def byte_level_piece(token: str) -> bytes:
    """Bytes of a token of a byte-level BPE vocabulary; plain UTF-8 for one that is not spelt in its alphabet."""
    if token.isascii():
        return token.encode("ascii")
    try:
        return token.translate(_TO_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode("utf-8")


_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def sentencepiece_piece(token: str) -> bytes:
    """Bytes of a token of a SentencePiece vocabulary: the mark is a space, <0xNN> is a byte."""
    if token.startswith("<0x") and (match := _BYTE_TOKEN.fullmatch(token)):
        return bytes([int(match[1], 16)])
    return token.replace(SPACE_MARK, " ").encode("utf-8")
