"""Many steps at once, for simulations: stretches in which every running sequence draws tokens and nobody else does."""

from __future__ import annotations

import heapq
from math import inf

import numpy as np

from andes_jax.scheduling.admission import Admitter
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.paging import GROWTH_CAP, GROWTH_SHARE, Paging
from andes_jax.scheduling.roster import Roster
from andes_jax.scheduling.sequence import Sequence

MADE_UP_TOKEN = 0


class Leaper:
    """Finds such stretches and takes them in with the pages and the readers' clocks of single steps."""

    def __init__(
        self, roster: Roster, ledger: Ledger, paging: Paging, admitter: Admitter, guarantee: Guarantee
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._paging = paging
        self._admitter = admitter
        self._covers = guarantee.covers  # these take pages only as all of them can be finished

    def quiet_steps(self) -> int:
        """How many further steps would be one decode for each running sequence, if nobody comes or goes.

        0: a decision is due. Whoever waits is looked at again at `next_look_s`, which ends the stretch as well.
        """
        roster = self._roster
        running = roster.running
        if not running or roster.leaving or roster.allowed is not None or (roster.waiting and roster.changed):
            return 0
        if any(s.computed + 1 != s.known or s.known == s.prompt_length or self._covers(s) for s in running):
            return 0
        computed, capacity = np.array([(s.computed, s.capacity) for s in running], dtype=np.int64).T
        return self._steps_with_pages(min(s.goal - s.computed for s in running), computed, capacity)

    @property
    def next_look_s(self) -> float:
        """When those who wait are looked at again if nothing changes; inf when nobody does."""
        return self._admitter.next_look_s if self._roster.waiting else inf

    def _steps_with_pages(self, steps: int, computed: np.ndarray, capacity: np.ndarray) -> int:
        """The most of these steps for which pages certainly suffice."""
        pool, size = self._paging.pool, self._paging.page_tokens
        room = pool.available
        if pool.free > pool.total // GROWTH_SHARE:
            room -= GROWTH_CAP * len(computed)  # that is when sequences take pages ahead of their need
        least, most = 0, steps
        while least < most:
            middle = (least + most + 1) // 2
            short = np.maximum(computed + middle - capacity, 0)
            if int(((short + size - 1) // size).sum()) <= room:
                least = middle
            else:
                most = middle - 1
        return least

    def leap(self, ends_s: np.ndarray) -> None:
        """Plan and commit as many steps as there are ends [k], fewer than `quiet_steps`; no step may be in flight.

        Token ids are made up. Pages are taken in the order in which single steps would take them; a prefix cache
        learns of full ones only afterwards, so that it may have given up others.
        """
        running = self._roster.running
        count = len(ends_s)
        self._grow(running, count)
        for sequence in running:
            sequence.token_ids.extend([MADE_UP_TOKEN] * count)
            sequence.known += count
            sequence.computed += count
            self._paging.publish(sequence)
        self._ledger.deliver_many(self._roster.rows_running(), ends_s)

    def _grow(self, running: list[Sequence], count: int) -> None:
        due = [(s.capacity - s.computed, place) for place, s in enumerate(running) if s.capacity - s.computed < count]
        heapq.heapify(due)
        while due:
            _, place = heapq.heappop(due)
            sequence = running[place]
            grown = self._paging.grow(sequence)
            assert grown, "pages were promised"
            if (step := sequence.capacity - sequence.computed) < count:
                heapq.heappush(due, (step, place))
