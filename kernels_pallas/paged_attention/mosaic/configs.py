"""How a kernel is cut: the numbers that a GPU decides and that change no result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """Fixed at compile time."""

    splits: int = 1  # parts of a row's keys that run side by side and are merged afterwards
    block_tokens: int = 64  # keys of one turn of the loop; a multiple of the page's tokens
    stages: int = 2  # blocks held in shared memory at once, in use or on their way


@dataclass(frozen=True, slots=True)
class PrefillConfig:
    """Fixed at compile time."""

    block_queries: int = 64  # rows (query, group) of one tile per warpgroup
    block_tokens: int = 64  # keys of one turn of the loop; a multiple of the page's tokens
    stages: int = 2  # blocks held in shared memory at once, in use or on their way
