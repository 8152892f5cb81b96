"""What every source of a tokenizer boils down to, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from andes_jax.failure import UserError
from andes_jax.text.token_table import TokenTable

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


class TokenizerError(UserError, ValueError):
    """A tokenizer that cannot be built: one line that says what is missing, wrong or not supported."""


class TokenKind(IntEnum):
    """The part a token plays; the numbers are those of SentencePiece and of GGUF, which agree."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # steers the model; never text of a user
    USER_DEFINED = 4  # always matched whole in text, but ordinary text otherwise
    UNUSED = 5
    BYTE = 6  # one raw byte, written <0xNN>


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, as their file spells them; the lists have equal lengths."""

    tokens: list[str]
    kinds: list[TokenKind]

    def ids_of(self, *kinds: TokenKind) -> list[int]:
        """Ids of these kinds, ascending."""
        return [index for index, kind in enumerate(self.kinds) if kind in kinds]


@dataclass(frozen=True)
class TokenizerParts:
    """All that `Tokenizer` needs to work."""

    backend: Backend  # finds control tokens in text; not changed once handed over
    table: TokenTable
    control_ids: frozenset[int]  # ids that text must not turn into unless its writer is trusted
    bos_id: int | None
    eos_ids: tuple[int, ...]  # ids that end a reply, the model's own end of sequence first
    prefix_ids: tuple[int, ...] = ()  # put before a text by add_special
    suffix_ids: tuple[int, ...] = ()  # put after it
