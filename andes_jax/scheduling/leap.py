"""Many steps at once, for simulations: stretches in which every running sequence draws tokens and nothing is decided."""

from __future__ import annotations

import heapq
from math import inf

import numpy as np

from andes_jax.scheduling.paging import GROWTH_CAP
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.scheduling.sequence import Sequence

MADE_UP_TOKEN = 0


def quiet_steps(scheduler: Scheduler) -> int:
    """How many further steps would be one decode for each running sequence, if nobody comes or goes; 0: a decision is due.

    A step may be in flight. Whoever waits is looked at again at `next_look_s`, which ends the stretch as well.
    """
    roster = scheduler.roster
    running = roster.running
    if not running or roster.leaving or roster.allowed is not None or (roster.waiting and roster.changed):
        return 0
    computed, known, capacity = np.array([(s.computed, s.known, s.capacity) for s in running], dtype=np.int64).T
    if (computed + 1 != known).any() or any(s.known == s.prompt_length for s in running):
        return 0
    steps = min(s.goal - s.computed for s in running)
    return _steps_with_pages(scheduler, steps, computed, capacity)


def next_look_s(scheduler: Scheduler) -> float:
    """When those who wait are looked at again if nothing changes."""
    return scheduler.admitter.next_look_s if scheduler.roster.waiting else inf


def _steps_with_pages(scheduler: Scheduler, steps: int, computed: np.ndarray, capacity: np.ndarray) -> int:
    """The most of these steps for which pages certainly suffice."""
    pool, size = scheduler.pool, scheduler.limits.page_tokens
    room = pool.available
    if pool.free > pool.total // GROWTH_CAP:
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


def leap(scheduler: Scheduler, ends_s: np.ndarray) -> None:
    """Plan and commit as many steps as there are ends [k], at most `quiet_steps`; no step may be in flight.

    Token ids are made up. Pages are taken in the order in which single steps would take them.
    """
    assert not scheduler.steps
    running = scheduler.roster.running
    count = len(ends_s)
    _grow(scheduler, running, count)
    for sequence in running:
        sequence.token_ids.extend([MADE_UP_TOKEN] * count)
        sequence.known += count
        sequence.computed += count
        scheduler.paging.publish(sequence)
    scheduler.ledger.deliver_many(scheduler.roster.rows_running(), ends_s)
    scheduler.generated_tokens += count * len(running)


def _grow(scheduler: Scheduler, running: list[Sequence], count: int) -> None:
    due = [(s.capacity - s.computed, place) for place, s in enumerate(running) if s.capacity - s.computed < count]
    heapq.heapify(due)
    while due:
        _, place = heapq.heappop(due)
        sequence = running[place]
        grown = scheduler.paging.grow(sequence)
        assert grown, "pages were promised"
        if (step := sequence.capacity - sequence.computed) < count:
            heapq.heappush(due, (step, place))
