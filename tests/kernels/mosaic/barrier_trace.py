"""What Hopper's kernels do, written down: their own code runs in plain Python, with stand-ins for Pallas and numbers.

The stand-in for `common.launch` gets the barriers and the tiles of shared memory that a kernel wants, and runs its
program for each point of the grid and each warpgroup. Operations on barriers, copies and products are noted, and
nothing is computed. The code is that for a GPU, with weights in registers, which the interpreter does not run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels_pallas.paged_attention.mosaic import common, hopper_blocks
from tests.kernels.mosaic import barrier_model as model
from tests.kernels.mosaic.mutants import planted

NOTHING = np.zeros(1)  # any number
NAMES = ("queries", "pool")  # of a kernel's first arguments; the others are numbers that it reads
DEVICE = "device"  # results in device memory, which nobody reads


class Piece(NamedTuple):
    """As pl.ds."""

    start: int
    size: int


class Whole(NamedTuple):
    """What a kernel asks for in shared memory."""

    shape: tuple[int, ...]
    dtype: Any = None


@dataclass(frozen=True)
class Waited:
    """As plgpu.Barrier, which a kernel asks for."""

    num_arrivals: int = 1
    num_barriers: int = 1


@dataclass
class Recorder:
    """What one warpgroup at one point of the grid has done so far."""

    axes: dict[str, int]
    table: np.ndarray
    page_tokens: int
    steps: list[model.Operation] = field(default_factory=list)
    block: int = -1  # that the loop is at
    products: int = 0

    def contents(self, ref: Ref) -> list[Any] | None:
        """What a product is to find there: the block's pages of keys or values; None where it is told by no block."""
        name, _, which = ref.name.partition(".")
        if name != "buffers":
            return None
        tokens = np.arange(0, ref.whole[1], common.TILE_ROWS)
        column = self.block * (ref.whole[1] // self.page_tokens) + tokens // self.page_tokens
        rows = self.table[self.axes["row"], column] * self.page_tokens + tokens % self.page_tokens
        return [(int(which), self.axes["head"], int(row)) for row in rows]


@dataclass(frozen=True)
class Ref:
    """A part of an array: `taken` by number or by piece in each of its dimensions."""

    name: str
    whole: tuple[int, ...]
    taken: tuple[int | Piece, ...]
    recorder: Recorder
    dtype: Any = np.float16

    @property
    def at(self) -> Ref:
        return self

    @property
    def T(self) -> Ref:  # noqa: N802 - as arrays call it
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.taken if isinstance(part, Piece))

    def __getitem__(self, index: Any) -> Ref:
        wanted = [index] if isinstance(index, Piece) or not isinstance(index, tuple) else list(index)
        taken: list[int | Piece] = []
        for part in self.taken:
            if isinstance(part, int) or not wanted:
                taken.append(part)
                continue
            each = wanted.pop(0)
            start, size = each if isinstance(each, Piece) else (each, 1)
            assert start >= 0 and start + size <= part.size, f"{each} of {part.size} in {self.name}"
            inner = Piece(int(part.start + start), int(size))
            taken.append(inner if isinstance(each, Piece) else inner.start)
        return replace(self, taken=tuple(taken))

    def __setitem__(self, _index: Any, _value: Any) -> None:
        if self.name != DEVICE:
            self.recorder.steps.append(model.Store(self.cells()))

    def rows(self) -> list[tuple[int, ...]]:
        """Rows by their numbers in the whole array, the first of each swizzled tile for all of it."""
        pieces = [Piece(part, 1) if isinstance(part, int) else part for part in self.taken[:-1]]
        *ranges, last = (range(start, start + size) for start, size in pieces)
        return list(product(*ranges, last[:: common.TILE_ROWS]))

    def cells(self) -> list[model.Cell]:
        return [(self.name, *row) for row in self.rows()]


@dataclass(frozen=True)
class BarrierRef:
    name: str
    recorder: Recorder
    index: int = 0

    @property
    def at(self) -> BarrierRef:
        return self

    def __getitem__(self, index: Any) -> BarrierRef:
        return replace(self, index=int(index))

    @property
    def key(self) -> model.Barrier:
        return (self.name, self.index)

    def note(self, kind: Callable[[model.Barrier], model.Operation]) -> None:
        self.recorder.steps.append(kind(self.key))


@dataclass
class Accumulator:
    """As plgpu.ACC: products into it read their operands until it is read."""

    reading: list[tuple[Recorder, int]] = field(default_factory=list)

    @staticmethod
    def init(_value: Any) -> Accumulator:
        return Accumulator()

    def multiply(self, *operands: Any) -> None:
        for operand in (operand for operand in operands if isinstance(operand, Ref)):
            recorder = operand.recorder
            recorder.products += 1
            recorder.steps.append(model.Begin(recorder.products, operand.cells(), recorder.contents(operand)))
            self.reading.append((recorder, recorder.products))

    def __getitem__(self, _index: Any) -> np.ndarray:
        for recorder, number in self.reading:
            recorder.steps.append(model.End(number))
        self.reading.clear()
        return NOTHING


def _copy(source: Ref, target: Ref, barrier: BarrierRef) -> None:
    assert source.shape == target.shape, f"{source.shape} is copied to {target.shape}"
    contents = dict(zip(target.cells(), source.rows(), strict=True))
    target.recorder.steps.append(model.Copy(contents, barrier.key))


def _run_state(body: Callable[[Any], None]) -> Callable[[Accumulator], np.ndarray]:
    def run(accumulator: Accumulator) -> np.ndarray:
        body(accumulator)
        return accumulator[...]

    return run


@dataclass
class Program:
    """One point of the grid: what its warpgroups do, and the arrivals of its barriers' phases."""

    traces: list[Sequence[model.Operation]] = field(default_factory=list)
    arrivals: dict[model.Barrier, int] = field(default_factory=dict)


@dataclass
class Tracer:
    """Stands for Pallas in a kernel's modules."""

    page_tokens: int
    programs: list[Program] = field(default_factory=list)
    recorder: Recorder | None = None

    def launch(
        self, body: Callable[..., None], *arguments: Any, shapes: Any, grid: Any, scratch: Any, **rest: Any
    ) -> list[np.ndarray]:
        for point in np.ndindex(*grid.values()):
            self.programs.append(Program())
            for warpgroup in range(rest.get("num_threads", 1)):
                axes = dict(zip(grid, map(int, point), strict=True)) | {"warpgroup": warpgroup}
                self.recorder = recorder = Recorder(axes, arguments[2], self.page_tokens)
                self.programs[-1].traces.append(recorder.steps)
                arrays = [self._whole(name, array.shape) for name, array in zip(NAMES, arguments[:2], strict=True)]
                results = [self._whole(DEVICE, shape) for shape in shapes]
                made = {name: self._made(name, wanted) for name, wanted in scratch.items()}
                body(*arrays, *arguments[2:], *results, **made)
        return [np.zeros(shape) for shape in shapes]

    def _made(self, name: str, wanted: Any) -> Any:
        if isinstance(wanted, Whole):
            return self._whole(name, wanted.shape)
        if isinstance(wanted, Waited):
            counts = {(name, index): wanted.num_arrivals for index in range(wanted.num_barriers)}
            self.programs[-1].arrivals |= counts
            return BarrierRef(name, self._here)
        return wanted and tuple(self._made(f"{name}.{index}", each) for index, each in enumerate(wanted))

    def _whole(self, name: str, shape: tuple[int, ...]) -> Ref:
        return Ref(name, shape, tuple(Piece(0, size) for size in shape), self._here)

    @property
    def _here(self) -> Recorder:
        assert self.recorder is not None
        return self.recorder

    def loop(self, start: int, stop: int, turn: Callable[[int, Any], Any], carry: Any) -> Any:
        for block in range(start, stop):
            self._here.block = block
            carry = turn(block, carry)
        return carry

    def stand_ins(self) -> dict[str, Any]:
        """Names of the kernels' modules, and what is there instead."""
        steps = lambda: self._here.steps  # noqa: E731
        return {
            "jnp": np,
            "lax": SimpleNamespace(
                axis_index=lambda name: self._here.axes[name],
                div=lambda left, right: int(left / right),
                rem=lambda left, right: int(left) % int(right),
                fori_loop=self.loop,
            ),
            "pl": SimpleNamespace(
                ds=Piece,
                when=lambda condition: lambda body: body() if condition else None,
                run_scoped=lambda body, accumulator: body(accumulator),
                run_state=_run_state,
            ),
            "plgpu": SimpleNamespace(
                ACC=type("ACC", (Accumulator,), {"__init__": lambda self, *_: Accumulator.__init__(self)}),
                Barrier=Waited,
                wgmma=lambda accumulator, *operands: accumulator.multiply(*operands),
                barrier_wait=lambda barrier: barrier.note(model.Wait),
                barrier_arrive=lambda barrier: barrier.note(model.Arrive),
                copy_gmem_to_smem=_copy,
                commit_smem=lambda: steps().append(model.Commit()),
                copy_smem_to_gmem=lambda source, _: steps().append(model.CopyOut(source.cells())),
                wait_smem_to_gmem=lambda younger: steps().append(model.WaitOut(younger)),
                set_max_registers=lambda *_, **__: None,
            ),
        }


ONE_NUMBER = ("base2_scores", "mask", "pair_positions", "rescale", "normalised", "log_sum", "store")
NUMBERS: dict[str, Callable[..., Any]] = {  # of `common`: what computes, and decides nothing
    **dict.fromkeys(ONE_NUMBER, lambda *_: NOTHING),
    "update": lambda *_: (NOTHING,) * 4,
    "empty_sums": lambda *_: (NOTHING,) * 3,
}


def trace(
    monkeypatch: pytest.MonkeyPatch,
    kernel: ModuleType,
    page_tokens: int,
    call: Callable[[ModuleType], Any],
    module: ModuleType | None = None,
    changes: Sequence[tuple[str, str]] = (),
) -> list[Program]:
    """What the programs of a kernel do when `call` calls it, with changes in its module or in one below it."""
    copy = planted(monkeypatch, kernel, module or kernel, list(changes))
    tracer = Tracer(page_tokens)
    below = [sys.modules[each.__name__] for each in (common, hopper_blocks)]
    for each in (*below, copy):
        for name, stand_in in tracer.stand_ins().items():
            if hasattr(each, name):
                monkeypatch.setattr(each, name, stand_in)
    numbers = NUMBERS | {"launch": tracer.launch, "shared_tile": partial(Whole)}
    for name, stand_in in numbers.items():
        monkeypatch.setattr(below[0], name, stand_in)
    call(copy)
    return tracer.programs
