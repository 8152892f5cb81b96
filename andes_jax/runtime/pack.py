"""From a plan to the integer arrays that compiled programs take: one array, one transfer, per program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from andes_jax.runtime.shapes import Ladder, Shape
from andes_jax.scheduling.plan import Slice, StepPlan

SLOT, FIRST, COUNT, FED, SAMPLE, GENERATED = range(6)  # columns of a packed row, before its tokens and block table
HEADER = 6


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One program to run: its shape, its packed rows, and which slices of the plan the rows belong to."""

    shape: Shape
    rows: np.ndarray  # [shape.rows, HEADER + shape.queries + table width] int32, owned by this dispatch
    slices: tuple[int, ...]  # plan index of each leading row whose draw is read
    samples: bool = False  # whether any row draws
    source: int = 0  # plan index of the slice a prefill belongs to
    score_ids: np.ndarray | None = None  # [shape.queries] int32: ids whose log-probabilities are wanted
    scored: int = 0  # how many of score_ids are real


class Packer:
    """Packs plans for one ladder. Remembers each slot's block table, since most do not change between steps."""

    def __init__(self, ladder: Ladder, max_sequences: int, table_width: int) -> None:
        self._ladder = ladder
        self._spare = max_sequences
        self._width = table_width
        self._tables = np.zeros((max_sequences + 1, table_width), np.int32)
        self._known: list[tuple[int, ...]] = [()] * (max_sequences + 1)

    def pack(self, plan: StepPlan) -> list[Dispatch]:
        """The programs of one step, in the order they must run. Raises ValueError for a slice that fits no shape."""
        decodes = [index for index, part in enumerate(plan.slices) if part.count == 1 and part.score_ids is None]
        dispatches = [self._decode(plan.slices, decodes)] if decodes else []
        if len(decodes) < len(plan.slices):
            for index, part in enumerate(plan.slices):
                if part.count > 1 or part.score_ids is not None:
                    dispatches += self._prefill(index, part)
        return dispatches

    def padding(self, shape: Shape) -> Dispatch:
        """A dispatch of nothing but padding, to warm a shape."""
        return Dispatch(shape, self._blank(shape), ())

    def _blank(self, shape: Shape) -> np.ndarray:
        rows = np.zeros((shape.rows, HEADER + shape.queries + self._width), np.int32)
        rows[:, SLOT] = self._spare
        return rows

    def _decode(self, slices: tuple[Slice, ...], indices: list[int]) -> Dispatch:
        shape = Shape(self._ladder.rows_for(len(indices)), 1)
        rows = self._blank(shape)
        chosen = [slices[index] for index in indices] if len(indices) < len(slices) else slices
        count = len(chosen)
        rows[:count, : HEADER + 1] = [
            (
                part.slot,
                part.first,
                1,
                part.token_ids is None,
                part.sample,
                part.generated,
                0 if part.token_ids is None else part.token_ids[0],
            )
            for part in chosen
        ]
        for part in chosen:
            if self._known[part.slot] is not part.pages:
                self._remember(part)
        rows[:count, HEADER + 1 :] = self._tables[rows[:count, SLOT]]
        return Dispatch(shape, rows, tuple(indices), any(part.sample for part in chosen))

    def _prefill(self, index: int, part: Slice) -> list[Dispatch]:
        if part.token_ids is None:
            raise ValueError(f"a slice of {part.count} tokens in slot {part.slot} came without its ids")
        if self._known[part.slot] is not part.pages:
            self._remember(part)
        dispatches, done = [], 0
        for queries in self._ladder.cut(part.count):
            taken = min(queries, part.count - done)
            shape = Shape(self._ladder.prefill_rows, queries)
            rows = self._blank(shape)
            last = done + taken == part.count
            rows[0, :HEADER] = (part.slot, part.first + done, taken, False, part.sample and last, part.generated)
            rows[0, HEADER : HEADER + taken] = part.token_ids[done : done + taken]
            rows[0, HEADER + queries :] = self._tables[part.slot]
            wanted = () if part.score_ids is None else part.score_ids[done : done + taken]
            score_ids = None
            if wanted:
                score_ids = np.zeros(queries, np.int32)
                score_ids[: len(wanted)] = wanted
            drawn = part.sample and last
            slices = (index,) if last else ()
            dispatches.append(Dispatch(shape, rows, slices, drawn, index, score_ids, len(wanted)))
            done += taken
        return dispatches

    def _remember(self, part: Slice) -> None:
        if len(part.pages) > self._width:
            raise ValueError(f"{len(part.pages)} pages in slot {part.slot}, but block tables hold {self._width}")
        row = self._tables[part.slot]
        row[: len(part.pages)] = part.pages
        row[len(part.pages) :] = 0
        self._known[part.slot] = part.pages
