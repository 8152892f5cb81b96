"""Who asks: of which tier requests are, and how fast their readers read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from andes_jax.failure import UsageError
from andes_jax.request import Tier

# Share of readers and seconds they take for a token, by age group: Liu et al., "Andes", arXiv 2404.16283.
PAPER_READERS = ((0.2804, 0.196), (0.5187, 0.230), (0.1119, 0.240), (0.0556, 0.249), (0.0333, 0.264))
FAST_READERS = (20.0, 50.0)  # tokens per second, of programs that read along


def parse_tiers(words: str) -> tuple[tuple[Tier, float], ...]:
    """Tiers with their shares, which add up to 1, from realtime=0.7,streaming=0.2,batch=0.1. Raises UsageError."""
    shares: dict[Tier, float] = {}
    for part in words.split(","):
        name, _, written = part.partition("=")
        try:
            tier, share = Tier[name.strip().upper()], float(written) if written else 1.0
        except (KeyError, ValueError):
            raise UsageError(f"tiers {words!r}: give shares such as realtime=0.7,streaming=0.2,batch=0.1") from None
        if not 0 <= share < math.inf or tier in shares:
            raise UsageError(f"tiers {words!r}: each tier once, with a share of 0 or more")
        shares[tier] = share
    total = sum(shares.values())
    if total <= 0:
        raise UsageError(f"tiers {words!r}: the shares add up to nothing")
    return tuple((tier, share / total) for tier, share in shares.items())


@dataclass(frozen=True, slots=True)
class Readers:
    """How fast people read. Raises UsageError for speeds that make no sense.

    paper: the age groups of the Andes paper. fast: 20 to 50 tokens/s, evenly. none: nobody reads along. same: all read
    `tokens_per_s`. All expect the first token after `first_token_s`.
    """

    kind: str = "paper"
    tokens_per_s: float = 5.0
    first_token_s: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("paper", "fast", "none", "same"):
            raise UsageError(f"readers {self.kind!r}: give paper, fast, none or a speed in tokens per second")
        if not 0 < self.tokens_per_s < math.inf:
            raise UsageError(f"readers read at more than 0 tokens per second, not at {self.tokens_per_s:g}")
        if not 0 < self.first_token_s < math.inf:
            raise UsageError(f"readers expect the first token after more than 0 seconds, not {self.first_token_s:g}")

    def speeds(self, count: int, random: np.random.Generator) -> np.ndarray:
        """Tokens per second [count] of so many readers."""
        if self.kind == "paper":
            shares, seconds = np.array(PAPER_READERS).T
            return 1 / random.choice(seconds, size=count, p=shares / shares.sum())
        if self.kind == "fast":
            return random.uniform(*FAST_READERS, size=count)
        return np.full(count, self.tokens_per_s)


def parse_readers(words: str, first_token_s: float = 1.0) -> Readers:
    """paper, fast, none, or a speed in tokens per second. Raises UsageError."""
    kind = words.strip().lower()
    if kind in ("paper", "fast", "none"):
        return Readers(kind, first_token_s=first_token_s)
    try:
        return Readers("same", float(kind), first_token_s)
    except ValueError:
        raise UsageError(f"readers {words!r}: give paper, fast, none or a speed in tokens per second") from None
