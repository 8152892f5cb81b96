"""A model of what Hopper promises about barriers and copies, to run what kernels were seen to do under any schedule.

A barrier counts arrivals and the bytes of copies; a phase of it is complete when both are there, and a wait tells by
one bit, the phase's parity, whether the one it waits for is. A copy may land at any time after it was asked for, a
product reads its operands from when it is begun until its result is taken, and warpgroups run in any order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

Cell = tuple[Hashable, ...]  # a tile's rows in shared memory
Barrier = tuple[str, int]


@dataclass(frozen=True)
class Copy:
    """Ask for cells to be filled from device memory; the barrier has an arrival now and the bytes when they land."""

    contents: Mapping[Cell, Hashable]
    barrier: Barrier


@dataclass(frozen=True)
class Arrive:
    barrier: Barrier


@dataclass(frozen=True)
class Wait:
    barrier: Barrier


@dataclass(frozen=True)
class Begin:
    """A product starts to read cells, which have to have these contents; None: whatever is copied there."""

    number: int  # of the product and operand, by which it ends
    cells: Sequence[Cell]
    contents: Sequence[Hashable] | None


@dataclass(frozen=True)
class End:
    number: int


@dataclass(frozen=True)
class Store:
    """Write cells from registers."""

    cells: Sequence[Cell]


@dataclass(frozen=True)
class Commit:
    """Let copies see what was stored."""


@dataclass(frozen=True)
class CopyOut:
    """Ask for cells to be copied to device memory."""

    cells: Sequence[Cell]


@dataclass(frozen=True)
class WaitOut:
    """Wait until copies to device memory but the youngest so many have read what they copy."""

    younger: int


Operation = Copy | Arrive | Wait | Begin | End | Store | Commit | CopyOut | WaitOut


@dataclass
class _Phases:
    """One barrier."""

    arrivals: int  # that complete a phase
    complete: int = 0  # phases so far
    arrived: int = 0
    under_way: int = 0  # copies of this phase that have not landed

    def arrive(self) -> None:
        assert self.arrived < self.arrivals, "more arrivals than a phase has"
        self.arrived += 1
        self.settle()

    def settle(self) -> None:
        if self.arrived == self.arrivals and self.under_way == 0:
            self.complete, self.arrived = self.complete + 1, 0

    def is_over(self, phase: int) -> bool:
        """What a wait for the phase sees: one bit."""
        return (self.complete - phase) % 2 == 1


@dataclass
class Machine:
    """Shared memory and barriers of one program while its warpgroups run."""

    barriers: dict[Barrier, _Phases]
    filled: frozenset[Cell]  # cells that some copy fills
    there: dict[Cell, Hashable] = field(default_factory=dict)
    flying: list[Copy] = field(default_factory=list)
    reading: dict[tuple[int, int], Sequence[Cell]] = field(default_factory=dict)  # by warpgroup and number
    stored: set[Cell] = field(default_factory=set)  # and not committed
    leaving: list[Sequence[Cell]] = field(default_factory=list)  # on their way to device memory
    waits: Counter[tuple[int, Barrier]] = field(default_factory=Counter)

    def can(self, thread: int, operation: Operation) -> bool:
        if not isinstance(operation, Wait):
            return True
        return self.barriers[operation.barrier].is_over(self.waits[thread, operation.barrier])

    def do(self, thread: int, operation: Operation) -> None:
        match operation:
            case Copy(contents, barrier):
                self._ask(operation, {cell for cells in self.reading.values() for cell in cells} & contents.keys())
                self.barriers[barrier].under_way += 1
                self.barriers[barrier].arrive()
            case Arrive(barrier):
                self.barriers[barrier].arrive()
            case Wait(barrier):
                self.waits[thread, barrier] += 1
            case Begin(number, cells, contents):
                self._read(cells, contents)
                self.reading[thread, number] = cells
            case End(number):
                del self.reading[thread, number]
            case Store(cells):
                assert not any(set(cells) & set(others) for others in self.leaving), "stored while it is copied out"
                self.stored |= set(cells)
            case Commit():
                self.stored.clear()
            case CopyOut(cells):
                assert not self.stored & set(cells), "copied out and perhaps not seen"
                self.leaving.append(cells)
            case WaitOut(younger):
                self.leaving = self.leaving[len(self.leaving) - younger :]

    def _ask(self, copy: Copy, read: set[Cell]) -> None:
        assert not read, f"{sorted(read, key=str)[0]} is filled while it may be read"
        for other in self.flying:
            assert not other.contents.keys() & copy.contents.keys(), "two copies to one place at a time"
        for cell in copy.contents:
            self.there.pop(cell, None)
        self.flying.append(copy)

    def _read(self, cells: Sequence[Cell], contents: Sequence[Hashable] | None) -> None:
        for index, cell in enumerate(cells):
            got = self.there.get(cell)
            if contents is None:
                assert got is not None or cell not in self.filled, f"{cell} has not arrived and is read"
            else:
                assert got == contents[index], f"{cell}: {got} has arrived, {contents[index]} is read"

    def land(self, index: int) -> None:
        copy = self.flying.pop(index)
        self.there |= copy.contents
        phases = self.barriers[copy.barrier]
        phases.under_way -= 1
        phases.settle()

    def finish(self) -> None:
        assert not self.flying, "copies are on their way when the program ends"
        assert not self.leaving, "results are on their way when the program ends"


class Schedule:
    """Who goes next: warpgroups in an order of preference, or any. Copies land when all wait, or "any" time."""

    def __init__(self, order: Sequence[int] | None, landing: str, seed: int) -> None:
        self.order, self.landing, self.random = order, landing, random.Random(seed)

    def thread(self, able: list[int]) -> int:
        return self.random.choice(able) if self.order is None else min(able, key=self.order.index)

    def lands(self, machine: Machine, able: list[int]) -> int | None:
        """Which copy lands now, if any does."""
        count = len(machine.flying)
        if not count or (able and (self.landing != "any" or self.random.random() < 0.8)):
            return None
        return {"oldest": 0, "youngest": count - 1}.get(self.landing, self.random.randrange(count))


def schedules(threads: int) -> Iterator[Schedule]:
    """Every order of preference with copies as late as can be, and some at random."""
    for order in permutations(range(threads)):
        yield Schedule(order, "oldest", 0)
        yield Schedule(order, "youngest", 0)
    for seed in range(12):
        yield Schedule(None, "any", seed)


def run(traces: Sequence[Sequence[Operation]], arrivals: Mapping[Barrier, int], schedule: Schedule) -> None:
    """Run warpgroups that do these operations. AssertionError where a result could be wrong or nobody can go on."""
    filled = frozenset(cell for trace in traces for step in trace if isinstance(step, Copy) for cell in step.contents)
    machine = Machine({barrier: _Phases(count) for barrier, count in arrivals.items()}, filled)
    done = [0] * len(traces)
    while True:
        left = [thread for thread, trace in enumerate(traces) if done[thread] < len(trace)]
        able = [thread for thread in left if machine.can(thread, traces[thread][done[thread]])]
        landing = schedule.lands(machine, able)
        if landing is not None and left:
            machine.land(landing)
        elif able:
            thread = schedule.thread(able)
            machine.do(thread, traces[thread][done[thread]])
            done[thread] += 1
        else:
            waiting = [traces[thread][done[thread]] for thread in left]
            assert not left, f"stuck: {waiting}"
            machine.finish()
            return
