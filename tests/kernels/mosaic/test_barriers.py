"""The order of Hopper's operations on barriers, copies and products, as its kernels do them, under every schedule.

The interpreter runs one schedule and lets a copy land when it is asked for, so that it misses waits that are missing.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels_pallas.paged_attention.mosaic import common, hopper_blocks, hopper_decode, hopper_prefill
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from kernels_pallas.paged_attention.options import AttentionOptions
from tests.kernels.mosaic import barrier_model as model
from tests.kernels.mosaic.barrier_trace import Program, trace

PAGE_TOKENS, WIDTH = 16, 20  # of a table: 5 blocks of 64
RUNS = np.arange(1, 1 + WIDTH)
SCATTERED = RUNS[::-1].copy()
MIXED = np.where(np.arange(WIDTH) // 4 % 2 == 0, RUNS, SCATTERED)


def decode(monkeypatch, table, length, config, window=None, **planted) -> list[Program]:
    queries, pool = np.zeros((1, 1, 3, 64), np.float16), np.zeros((2, 1, 1 + WIDTH, PAGE_TOKENS, 64), np.float16)
    options = AttentionOptions(1.0, window=window)

    def call(kernel):
        kernel.decode(queries, pool, table[None], np.asarray([length]), options=options, config=config)

    return trace(monkeypatch, hopper_decode, PAGE_TOKENS, call, **planted)


def prefill(monkeypatch, table, span, config, tokens=40, window=None, **planted) -> list[Program]:
    """Four heads: tokens up to 16 are one multiplying warpgroup, more are two."""
    first, count = span
    queries = np.zeros((1, tokens, 1, 4, 64), np.float16)
    pool = np.zeros((2, 1, 1 + WIDTH, PAGE_TOKENS, 64), np.float16)
    options = AttentionOptions(1.0, window=window)

    def call(kernel):
        places = np.asarray([first]), np.asarray([count])
        kernel.prefill(queries, pool, table[None], *places, options=options, config=config)

    return trace(monkeypatch, hopper_prefill, PAGE_TOKENS, call, **planted)


def blocks_read(programs: list[Program], which: int) -> list[int]:
    """How many blocks of keys (0) or values (1) each warpgroup multiplies."""
    name = f"buffers.{which}"
    return [
        sum(isinstance(step, model.Begin) and step.cells[0][0] == name for step in steps)
        for program in programs
        for steps in program.traces
    ]


def judge(programs: list[Program]) -> None:
    """AssertionError where a schedule makes a result wrong or lets nobody go on."""
    for program in programs:
        for schedule in model.schedules(len(program.traces)):
            model.run(program.traces, program.arrivals, schedule)


@pytest.mark.parametrize("table", [RUNS, SCATTERED, MIXED], ids=["runs", "scattered", "mixed"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_decode_is_right_under_every_schedule(monkeypatch, table, stages):
    for length, splits, window, blocks in (
        (320, 1, None, [5]),
        (250, 2, None, [2, 2]),
        (300, 1, 70, [2]),
        (0, 1, None, [0]),
    ):
        programs = decode(monkeypatch, table, length, DecodeConfig(splits, 64, stages), window)
        judge(programs)
        assert blocks_read(programs, 0) == blocks_read(programs, 1) == blocks


@pytest.mark.parametrize("table", [RUNS, SCATTERED, MIXED], ids=["runs", "scattered", "mixed"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_prefill_is_right_under_every_schedule(monkeypatch, table, stages):
    for span, tokens, window, blocks in (
        ((280, 40), 40, None, [5, 5, 0, 5, 5, 0]),  # two tiles, the later one first
        ((280, 16), 16, None, [5, 0]),
        ((250, 30), 30, 70, [3, 3, 0]),
        ((0, 0), 20, None, [0, 0, 0]),
    ):
        programs = prefill(monkeypatch, table, span, PrefillConfig(64, 64, stages), tokens, window)
        judge(programs)
        assert blocks_read(programs, 0) == blocks_read(programs, 1) == blocks


DECODE_REFILL = "        pl.when(block + stages < stop)(partial(ask, block + stages))\n"
DECODE_KEYS = "        plgpu.barrier_wait(arrived[0].at[slot])\n"
DECODE_VALUES = "        plgpu.barrier_wait(arrived[1].at[slot])\n"
COMMIT, WAIT_OUT = "    plgpu.commit_smem()\n    plgpu.copy_smem", "    plgpu.wait_smem_to_gmem(0)\n"
ARRIVE_OF_RUN = "        for _ in pages[1:]:\n            plgpu.barrier_arrive(arrived)\n"
ARRIVALS = "// page_tokens, num_barriers"
ASKED_SLOT = "        slot = lax.rem(block - start, stages)\n        pages"
TAKEN = "keys.T)\n        return accumulator[...]"
DECODE_MUTANTS = {
    "queries not waited for": (hopper_decode, [("    plgpu.barrier_wait(query_arrived)\n", "")]),
    "keys not waited for": (hopper_decode, [(DECODE_KEYS, "")]),
    "values not waited for": (hopper_decode, [(DECODE_VALUES, "")]),
    "values waited for as keys": (hopper_decode, [(DECODE_VALUES, DECODE_KEYS)]),
    "filled again before the values' product": (
        hopper_decode,
        [(DECODE_REFILL, ""), (DECODE_VALUES, DECODE_VALUES + DECODE_REFILL)],
    ),
    "filled again before the keys' product": (
        hopper_decode,
        [(DECODE_REFILL, ""), (DECODE_KEYS, DECODE_REFILL + DECODE_KEYS)],
    ),
    "a block too many asked for at first": (hopper_decode, [("in range(stages):", "in range(stages + 1):")]),
    "a stage too few asked for at first": (hopper_decode, [("in range(stages):", "in range(stages - 1):")]),
    "a page's arrival too many": (
        hopper_decode,
        [(ARRIVALS, ARRIVALS.replace(",", " + 1,"))],
    ),
    "a run arrives once": (hopper_blocks, [(ARRIVE_OF_RUN, "")]),
    "product not waited for": (hopper_blocks, [(TAKEN, TAKEN.replace("accumulator[...]", "accumulator"))]),
    "one slot for all": (hopper_decode, [(ASKED_SLOT, "        slot = 0\n        pages")]),
    "result not seen by its copy": (hopper_decode, [(COMMIT, COMMIT.split("\n")[1])]),
    "result's copy not waited for": (hopper_decode, [(WAIT_OUT, "")]),
}
PREFILL_QUERIES = "        plgpu.barrier_wait(query_arrived.at[warpgroup])\n"
KEYS_PRODUCT = "    products = hopper_blocks.products(query_tile, buffers[0].at[slot])\n"
KEYS_FREE, VALUES_FREE = (f"    plgpu.barrier_arrive(free[{which}].at[slot])\n" for which in (0, 1))
KEYS_WAIT, VALUES_WAIT = (f"    plgpu.barrier_wait(arrived[{which}].at[slot])\n" for which in (0, 1))
FREE_WAIT = "            pl.when(block >= start + stages)(partial(plgpu.barrier_wait, free[which].at[slot]))\n"
PREFILL_MUTANTS = {
    "queries not waited for": (hopper_prefill, [(PREFILL_QUERIES, "")]),
    "queries of another warpgroup waited for": (
        hopper_prefill,
        [(PREFILL_QUERIES, PREFILL_QUERIES.replace("[warpgroup]", "[0]"))],
    ),
    "keys not waited for": (hopper_prefill, [(KEYS_WAIT, "")]),
    "values not waited for": (hopper_prefill, [(VALUES_WAIT, "")]),
    "keys given up before their product": (
        hopper_prefill,
        [(KEYS_PRODUCT + KEYS_FREE, KEYS_FREE + KEYS_PRODUCT)],
    ),
    "values given up before their product": (
        hopper_prefill,
        [
            (VALUES_FREE, ""),
            (VALUES_WAIT, VALUES_WAIT + VALUES_FREE),
        ],
    ),
    "filled again a block too early": (hopper_prefill, [(FREE_WAIT, FREE_WAIT.replace(">=", ">"))]),
    "filled again without a wait": (hopper_prefill, [(FREE_WAIT, "")]),
    "values filled again when the keys are free": (hopper_prefill, [(FREE_WAIT, FREE_WAIT.replace("[which]", "[0]"))]),
    "one warpgroup gives a buffer up for both": (
        hopper_prefill,
        [("num_arrivals=cut.warpgroups,", "num_arrivals=1,")],
    ),
    "buffers never given up": (hopper_prefill, [(KEYS_FREE, "")]),
    "a run arrives once": (hopper_blocks, [(ARRIVE_OF_RUN, "")]),
    "everything a run": (common, [("run &= page == pages[0] + index", "pass")]),
}


@pytest.mark.parametrize("name", DECODE_MUTANTS)
def test_a_fault_in_decode_is_found(monkeypatch, name):
    module, changes = DECODE_MUTANTS[name]
    programs = decode(monkeypatch, MIXED, 320, DecodeConfig(1, 64, 2), module=module, changes=changes)
    with pytest.raises(AssertionError):
        judge(programs)


@pytest.mark.parametrize("name", PREFILL_MUTANTS)
def test_a_fault_in_prefill_is_found(monkeypatch, name):
    module, changes = PREFILL_MUTANTS[name]
    programs = prefill(monkeypatch, MIXED, (280, 40), PrefillConfig(64, 64, 2), module=module, changes=changes)
    with pytest.raises(AssertionError):
        judge(programs)
