"""The short ladder of shapes that programs are compiled for, and how work is cut to fit it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

PREFILL_QUERIES = (16, 64, 256)  # tokens of one prompt per program; between them padding costs at most 4 times
FIXED_COST_TOKENS = 24  # reading the weights once costs about as much as computing so many tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """One compiled program: `rows` sequences, each with `queries` new tokens. One query is a decode."""

    rows: int
    queries: int


@dataclass(frozen=True)
class Ladder:
    """Every shape that is compiled. The context length is no part of it: attention loops over it as data."""

    decode_rows: tuple[int, ...]  # ascending
    prefill_queries: tuple[int, ...]  # ascending, one row each

    @classmethod
    def for_limits(cls, max_sequences: int, prefill_chunk: int, lone_row: bool) -> Ladder:
        """A ladder for so many sequences. `lone_row` says whether a product with one row is cheap on this backend."""
        fewest = 1 if lone_row else 2
        most = max(max_sequences, fewest)
        rows = {most} | {fewest << doublings for doublings in range(most.bit_length()) if fewest << doublings < most}
        queries = {size for size in PREFILL_QUERIES if size < prefill_chunk} | {prefill_chunk}
        return cls(tuple(sorted(rows)), tuple(sorted(queries)))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All shapes, decodes first."""
        decodes = tuple(Shape(rows, 1) for rows in self.decode_rows)
        return decodes + tuple(Shape(self.prefill_rows, queries) for queries in self.prefill_queries)

    @property
    def prefill_rows(self) -> int:
        """Prompts are computed one at a time: one chunk already fills the machine."""
        return 1

    def rows_for(self, count: int) -> int:
        """The smallest compiled row count that holds `count` decodes. Raises ValueError when none does."""
        for rows in self.decode_rows:
            if rows >= count:
                return rows
        raise ValueError(f"{count} sequences in one step, but shapes go to {self.decode_rows[-1]}")

    def cut(self, count: int) -> tuple[int, ...]:
        """Cut a prompt slice of `count` tokens into program sizes that cost least; the last may be padded."""
        return _cheapest_cut(count, self.prefill_queries)


@lru_cache(maxsize=4096)
def _cheapest_cut(count: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    largest = sizes[-1]
    whole, rest = divmod(count, largest)
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for tokens in range(1, rest + 1):
        options = []
        for size in sizes:
            cost, cuts = best[max(0, tokens - size)]
            options.append((cost + size + FIXED_COST_TOKENS, (*cuts, size)))
        best[tokens] = min(options)
    return (largest,) * whole + tuple(sorted(best[rest][1], reverse=True))
