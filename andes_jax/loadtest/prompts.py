"""Prompts of given lengths, each unlike the others from its first token on, so that no prefix cache helps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from andes_jax.failure import UsageError

# Words that are one token, with the space before them, in the vocabularies in use.
_COMMON = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one
you were her all she there would their we him been has when who will more no if out so said what up its about into
than them can only other new some could time these two may then do first any my now such like our over man me even
"""
_WORDS = _COMMON.split()


@dataclass(frozen=True, slots=True)
class Prompts:
    """Random prompts by seed. Raises UsageError for a range of ids that is none."""

    seed: int
    low: int = 1000  # token ids are drawn from low <= id < high: above special tokens, inside common vocabularies
    high: int = 30000
    shared_prefix: int = 0  # first tokens that all prompts have in common

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise UsageError(f"token ids from {self.low} to {self.high}: the first must be below the second")

    def ids(self, index: int, tokens: int) -> list[int]:
        """Prompt number `index` as so many token ids."""
        return self._drawn(index, tokens, self.low, self.high)

    def text(self, index: int, tokens: int) -> str:
        """Prompt number `index` as so many common words, which are about as many tokens."""
        return " ".join(_WORDS[each] for each in self._drawn(index, tokens, 0, len(_WORDS)))

    def _drawn(self, index: int, tokens: int, low: int, high: int) -> list[int]:
        shared = min(self.shared_prefix, tokens)
        own = np.random.default_rng([self.seed, index + 1]).integers(low, high, tokens - shared)
        if not shared:
            return list(own.tolist())
        common = np.random.default_rng([self.seed, 0]).integers(low, high, self.shared_prefix)
        return [*common[:shared].tolist(), *own.tolist()]


def parse_token_ids(words: str) -> tuple[int, int]:
    """LOW:HIGH. Raises UsageError."""
    low, _, high = words.partition(":")
    try:
        return int(low), int(high)
    except ValueError:
        raise UsageError(f"token ids {words!r}: give LOW:HIGH such as 1000:30000") from None
