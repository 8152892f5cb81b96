"""Which blocks a row's queries read and which pages are one copy, counted out one by one for all small numbers."""

from __future__ import annotations

from itertools import product
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.paged_attention.mosaic import common
from tests.kernels.mosaic.mutants import mutated

BLOCK = 4
LONGEST = 21
WINDOWS = (None, 1, 2, 3, 4, 5, 8, 9)


def seen(position: int, window: int | None) -> range:
    """The keys that a query sees."""
    return range(max(0, position - (window or LONGEST) + 1), position + 1)


def decode_faults(module: ModuleType) -> list[str]:
    """Lengths, windows and splits for which a block is left out, read twice or read for nothing."""
    found = []
    for window, splits in product(WINDOWS, (1, 2, 3)):

        def ranges(length, split, window=window, splits=splits):
            return module.decode_blocks(length, split, splits=splits, block_tokens=BLOCK, window=window)

        lengths, parts = np.arange(LONGEST), np.arange(splits)
        pairs = np.asarray(list(product(lengths, parts)), np.int32)
        start, stop = (np.asarray(bound).reshape(-1, splits) for bound in jax.vmap(ranges)(*pairs.T))
        for length in lengths:
            got = [block for split in parts for block in range(start[length, split], stop[length, split])]
            if got != sorted({key // BLOCK for key in seen(length - 1, window)}):
                found.append(f"{length} keys, window {window}, {splits} splits: {got}")
    return found


def prefill_faults(module: ModuleType) -> list[str]:
    """Queries and windows for which a block is left out, read for nothing, or goes without the mask it needs."""
    found = []
    spans = [(lowest, highest) for lowest in range(LONGEST) for highest in range(lowest, LONGEST)]
    for window in WINDOWS:

        def ranges(lowest, highest, window=window):
            return module.prefill_blocks(lowest, highest, block_tokens=BLOCK, window=window)

        bounds = np.stack(jax.vmap(ranges)(*np.asarray(spans, np.int32).T), axis=1)
        for (lowest, highest), (start, full_start, full_stop, stop) in zip(spans, bounds, strict=True):
            views = [set(seen(position, window)) for position in range(lowest, highest + 1)]
            wanted = sorted({key // BLOCK for view in views for key in view})
            full = [all(view.issuperset(range(b * BLOCK, (b + 1) * BLOCK)) for view in views) for b in range(stop)]
            unmasked = range(full_start, full_stop)
            in_order = start <= full_start <= max(full_start, full_stop) <= stop
            if list(range(start, stop)) != wanted or not in_order or not all(full[b] for b in unmasked):
                found.append(f"{lowest} to {highest}, window {window}: {start}, {full_start}, {full_stop}, {stop}")
    return found


def run_faults(module: ModuleType) -> list[str]:
    """Pages that are taken for a run or not, and should not or should."""
    tables = np.asarray(list(product(range(1, 6), repeat=4)), np.int32)
    got = jax.vmap(lambda pages: module.is_run(list(pages)))(jnp.asarray(tables))
    return [str(table) for table in tables[np.asarray(got) != (np.diff(tables) == 1).all(axis=1)]]


FAULTS = {"decode": decode_faults, "prefill": prefill_faults, "run": run_faults}


@pytest.mark.parametrize("of", FAULTS)
def test_every_small_case_is_right(of):
    assert FAULTS[of](common) == []


RUN = "run &= page == pages[0] + index"
MUTANTS = {
    "a block before decode's window": ("decode", "length - window, 0", "length - window - 1, 0"),
    "a window too narrow for decode": ("decode", "length - window, 0", "length - window + 1, 0"),
    "last block left out": ("decode", "lax.div(length + (block_tokens - 1), block", "lax.div(length, block"),
    "splits overlap": ("decode", "jnp.minimum(start + share, stop)", "jnp.minimum(start + share + 1, stop)"),
    "a window too narrow for prefill": ("prefill", "lowest - (window - 1)", "lowest - (window - 2)"),
    "a block before prefill's window": ("prefill", "lowest - (window - 1)", "lowest - window"),
    "no mask at the window's start": ("prefill", "highest - (window - 1)", "highest - window"),
    "no mask at the diagonal": ("prefill", "lax.div(lowest + 1, block", "lax.div(lowest + 2, block"),
    "one block too few": ("prefill", "lax.div(highest, block_tokens) + 1", "lax.div(highest + 1, block_tokens)"),
    "the last page decides": ("run", RUN, RUN.replace("&=", "=")),
    "everything a run": ("run", RUN, "pass"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(name):
    of, old, new = MUTANTS[name]
    assert FAULTS[of](mutated(common, (old, new)))
