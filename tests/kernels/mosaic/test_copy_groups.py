"""The order of copies on Ampere, which no interpreter sees: cp.async groups, counted, and barriers between warps.

The kernel's own loop runs in plain Python over a model of what the hardware promises: a wait for all but the n youngest
groups makes the older ones' bytes visible and, as it ends in a barrier of all warps, ends all reads before it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from kernels_pallas.paged_attention.mosaic import ampere_attention, ampere_blocks
from tests.kernels.mosaic.mutants import planted

PAGE_TOKENS = 16
Target = tuple[str, int, int]  # buffer, slot, page of the slot


@dataclass
class Machine:
    """Shared memory of one program: what was copied where, what has arrived, and what is being read."""

    groups: list[dict[Target, int]] = field(default_factory=list)  # page that each target gets, oldest group first
    there: dict[Target, int] = field(default_factory=dict)  # what has arrived
    reading: set[tuple[str, int]] = field(default_factory=set)  # buffers that a warp may still read
    written: bool = False  # weights that other warps may not see yet
    copies: int = 0

    def copy(self, source, target, _barrier) -> None:
        if target.buffer == "queries":
            self.groups.append({})
            return
        slot = (target.buffer, target.slot)
        assert slot not in self.reading, f"{slot} is filled while a warp may read it"
        first, pages = target.start // PAGE_TOKENS, source.size // PAGE_TOKENS
        group = {(*slot, first + index): source.start // PAGE_TOKENS + index for index in range(pages)}
        for place in group:
            self.there.pop(place, None)
        self.groups.append(group)
        self.copies += 1

    def empty(self) -> None:
        self.groups.append({})

    def wait(self, younger: int) -> None:
        done = max(0, len(self.groups) - younger)
        for group in self.groups[:done]:
            self.there |= group
        self.groups = self.groups[done:]
        self.reading.clear()
        self.written = False

    def read(self, view, pages: list[int]) -> None:
        got = [self.there.get((view.buffer, view.slot, index)) for index in range(len(pages))]
        assert got == pages, f"{view.buffer} of slot {view.slot}: {got} has arrived, {pages} is read"
        self.reading.add((view.buffer, view.slot))


class Buffer:
    """[stages, block_tokens, D] of shared memory, or of the pool: `at` says what is meant and nothing else."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name, self.shape, self.dtype = name, shape, np.float32
        self.at = self

    def __getitem__(self, index):
        slot, *rows = index if isinstance(index, tuple) else (index,)
        if self.name == "pool":
            return SimpleNamespace(start=int(rows[1].start), size=int(rows[1].size))
        return SimpleNamespace(buffer=self.name, slot=int(slot), start=int(rows[0].start) if rows else 0)


class Weights:
    """The tile through which warps hand each other their weights."""

    shape, dtype = (16, 64), np.float32

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __setitem__(self, _index, _value) -> None:
        assert ("weights", 0) not in self.machine.reading, "weights are replaced while a warp may read them"
        self.machine.written = True


def run(monkeypatch, table, stages, block_pages, module=ampere_attention, changes=()) -> Machine:
    """The blocks of one row, whose pages these are, with changes in a module. AssertionError where a read is wrong."""
    attention = planted(monkeypatch, ampere_attention, module, list(changes))
    blocks_module = sys.modules[ampere_blocks.__name__]
    machine = Machine()
    pages = [int(page) for page in table]
    current = [0]

    def in_order(start, stop, turn, sums):
        for block in range(start, stop):
            current[0] = block
            sums = turn(block, sums)
        return sums

    def expected() -> list[int]:
        return pages[current[0] * block_pages :][:block_pages]

    def add_mixed(mixed, _weights, values, _layouts):
        assert not machine.written, "weights of other warps are read before they are sure to be there"
        machine.reading.add(("weights", 0))
        machine.read(values, expected())
        return mixed

    none = np.zeros(1)
    monkeypatch.setattr(blocks_module, "_copy", machine.copy)
    monkeypatch.setattr(blocks_module, "_empty_group", machine.empty)
    monkeypatch.setattr(blocks_module.plgpu, "wait_gmem_to_smem", machine.wait)
    monkeypatch.setattr(blocks_module.pl, "when", lambda condition: lambda body: body() if condition else None)
    for name, stand_in in {
        "_Layouts": SimpleNamespace(of=lambda _: SimpleNamespace(sums=None)),
        "_scores": lambda _queries, keys, _layouts: machine.read(keys, expected()),
        "_add_mixed": add_mixed,
        "base2_scores": lambda *_: none,
        "update": lambda *_: (none, none, none, none),
        "rescale": lambda *_: none,
        "empty_sums": lambda *_: (none, none, none),
        "lax": SimpleNamespace(fori_loop=in_order),
    }.items():
        monkeypatch.setattr(attention, name, stand_in)
    shape = (stages, block_pages * PAGE_TOKENS, 64)
    buffers = (Buffer("keys", shape), Buffer("values", shape))
    blocks = attention.BlockReader(
        Buffer("pool", ()), np.asarray([table]), 0, 0, 0, len(pages) // block_pages, PAGE_TOKENS, buffers, ()
    )
    query_tile = SimpleNamespace(shape=(16, 64), buffer="queries")
    attention.attend_blocks(None, blocks, query_tile, Weights(machine), None, lambda _block, scores, _layout: scores)
    return machine


RUNS, SCATTERED = np.arange(1, 21), np.arange(20, 0, -1)
MIXED = np.where(np.arange(20) // 4 % 2 == 0, RUNS, SCATTERED)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("block_pages", [1, 2, 4])
@pytest.mark.parametrize("table", [RUNS, SCATTERED, MIXED, RUNS[:4], RUNS[:0]], ids=str)
def test_every_block_is_there_when_it_is_read(monkeypatch, table, stages, block_pages):
    machine = run(monkeypatch, table, stages, block_pages)
    assert machine.copies >= 2 * len(table) // block_pages


def test_runs_are_one_copy_for_keys_and_one_for_values(monkeypatch):
    assert run(monkeypatch, RUNS, 2, 4).copies == 2 * 5
    assert run(monkeypatch, SCATTERED, 2, 4).copies == 2 * 20


KEYS_WAIT = "(2 * (self._stages - 1) - 1) * self._pages)"
VALUES_WAIT = "block, 2 * (self._stages - 1) * self._pages)"
SWAPPED = (
    "        blocks.ask_next(block)\n        scores = base2_scores(_scores(query_tile, blocks.keys(block), layouts)"
)
MUTANTS = {
    "keys' wait leaves a group too many": (ampere_blocks, [(KEYS_WAIT, KEYS_WAIT[:-1] + " + 1)")]),
    "values' wait leaves a group too many": (ampere_blocks, [(VALUES_WAIT, VALUES_WAIT[:-1] + " + 1)")]),
    "a run counts as one group": (ampere_blocks, [("            self._skip(self._pages - 1, barrier)\n", "")]),
    "blocks past the last count as none": (ampere_blocks, [("self._skip(2 * self._pages, None)", "None")]),
    "values are copied first": (
        ampere_blocks,
        [
            (
                "            for index, page in enumerate(pages):\n",
                "            for index, page in enumerate(pages[::-1]):\n",
            )
        ],
    ),
    "a buffer too few between": (ampere_blocks, [("in range(self._stages - 1)", "in range(self._stages - 2)")]),
    "filled again while other warps read": (
        ampere_attention,
        [
            ("        blocks.ask_next(block)\n", ""),
            ("        scores = base2_scores(_scores(query_tile, blocks.keys(block), layouts)", SWAPPED),
        ],
    ),
    "weights stored after the wait that shows them": (
        ampere_attention,
        [
            ("        weights_tile[...] =", "        values = blocks.values(block)\n        weights_tile[...] ="),
            ("weights_tile, blocks.values(block), layouts)", "weights_tile, values, layouts)"),
        ],
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(monkeypatch, name):
    module, changes = MUTANTS[name]
    with pytest.raises(AssertionError, match="is read|may read|are read"):
        run(monkeypatch, MIXED, 3, 4, module, changes)
