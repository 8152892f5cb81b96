"""What a policy decides. The scheduler does the rest: budget, pages, slots, fairness bounds."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from andes_jax.scheduling.priority import Columns
from andes_jax.scheduling.sequence import Sequence


class Policy(Protocol):
    """Pure over its arguments: the same sequences at the same `now` are ranked the same."""

    name: str

    def order(self, columns: Columns, now: float, limit: int | None = None) -> np.ndarray:
        """Indices into the columns, best first, a total order; at most `limit` of them.

        It ranks waiting sequences for admission, and running ones when pages run short, the last losing theirs.
        """
        ...

    def restless(self, waiting_per_tier: list[int], running_per_tier: list[int]) -> bool:
        """Whether some waiting request may take something from a running one; asked every step, so cheap."""
        ...

    def overtakes(self, waiting: Sequence, other: Sequence, now: float) -> bool:
        """Whether a waiting request goes before `other`: a running one's prefill, or a waiting one that lacks pages."""
        ...

    def displaces(self, waiting: Sequence, running: Sequence, now: float) -> bool:
        """Whether a waiting request may take a running one's slot or pages."""
        ...

    def takes_pages(self, needy: Sequence, running: Sequence) -> bool:
        """Whether a running request may take the pages of another that ranks below it. Where not, it waits for
        pages in place; the scheduler overrules this when otherwise nothing could advance."""
        ...

    def explain(self, columns: Columns, now: float) -> dict[str, np.ndarray]:
        """The terms of the ranking by name, each [n]."""
        ...
