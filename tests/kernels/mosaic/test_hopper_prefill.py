"""The prefill kernel for Hopper, interpreted on the CPU with its races looked for, against the specification."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic import common, hopper_blocks, hopper_prefill
from kernels_pallas.paged_attention.mosaic.configs import PrefillConfig
from kernels_pallas.paged_attention.options import AttentionOptions
from tests.kernels.mosaic.cases import Case, make_case, prefill_errors
from tests.kernels.mosaic.mutants import is_found, planted

pytestmark = pytest.mark.timeout(120)


def run(case: Case, options: AttentionOptions, config: PrefillConfig, module=hopper_prefill):
    def prefill(*arrays):
        interpret = plgpu.InterpretGPUParams(detect_races=True)
        return module.prefill(*arrays, options=options, config=config, interpret=interpret)

    return jax.device_get(jax.jit(prefill)(case.queries, case.pool, case.table, case.first, case.count))


PLAIN = AttentionOptions(0.125)
CASES = {  # spans: (older keys, new tokens)
    "ragged, one row empty": (dict(spans=[(0, 20), (100, 7), (0, 0), (0, 1)], group=3), PLAIN, PrefillConfig()),
    "a whole page and one more": (dict(spans=[(0, 16), (0, 17), (47, 17)], group=4), PLAIN, PrefillConfig()),
    "several tiles": (dict(spans=[(130, 50), (3, 20)], group=4, pages="run"), PLAIN, PrefillConfig(stages=3)),
    "a tile between two queries": (dict(spans=[(64, 60)], group=3, pages="mixed"), PLAIN, PrefillConfig()),
    "shared prefix": (dict(spans=[(64, 9), (70, 30)], kv_heads=2, shared_pages=4), PLAIN, PrefillConfig()),
    "sixteen heads, pages of a block": (
        dict(spans=[(70, 9)], group=16, head_dim=128, page_tokens=64, dtype="float16"),
        AttentionOptions(0.09),
        PrefillConfig(),
    ),
    "window": (
        dict(spans=[(300, 40), (0, 30)], group=4, page_tokens=32, pages="mixed"),
        AttentionOptions(0.125, window=70),
        PrefillConfig(),
    ),
    "window of one": (dict(spans=[(60, 10)]), AttentionOptions(0.125, window=1), PrefillConfig(stages=1)),
    "window that begins with a block's last key": (
        dict(spans=[(126, 1), (190, 1)]),
        AttentionOptions(0.125, window=64),
        PrefillConfig(),
    ),
    "wide window with whole blocks": (
        dict(spans=[(400, 20)], group=4, pages="run"),
        AttentionOptions(0.125, window=200),
        PrefillConfig(),
    ),
    "window and softcap": (
        dict(spans=[(150, 12)], group=8, dtype="float16"),
        AttentionOptions(0.5, window=100, softcap=3.0),
        PrefillConfig(),
    ),
    "softcap": (dict(spans=[(0, 70)]), AttentionOptions(0.125, softcap=50.0), PrefillConfig()),
    "head size 80": (dict(spans=[(10, 20)], head_dim=80), AttentionOptions(0.11), PrefillConfig()),
    "head size 256": (dict(spans=[(60, 10)], head_dim=256, group=2), AttentionOptions(0.06), PrefillConfig()),
    "blocks and tiles of 128": (
        dict(spans=[(120, 70)], group=4, head_dim=96, block_tokens=128),
        AttentionOptions(0.1),
        PrefillConfig(block_queries=128, block_tokens=128),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_specification(name):
    shape, options, config = CASES[name]
    case = make_case(**shape)
    out, lse = run(case, options, config)
    assert out.shape == case.queries.shape and lse.shape == out.shape[:-1]
    assert out.dtype == lse.dtype == np.float32
    errors = prefill_errors(case, options, out, lse)
    assert max(errors) <= case.tolerance, errors


def test_rows_without_queries_are_finite():
    case = make_case(spans=[(0, 0), (0, 0)], group=4, min_queries=20)
    out, lse = run(case, PLAIN, PrefillConfig())
    assert not out.any() and np.isneginf(lse).all()


def test_tiles_past_a_row_s_queries_are_zeros_and_minus_infinity():
    case = make_case(spans=[(0, 3)], min_queries=140)  # two tiles of 128 pairs
    out, lse = run(case, PLAIN, PrefillConfig())
    assert max(prefill_errors(case, PLAIN, out, lse)) <= case.tolerance
    assert not out[0, 128:].any() and np.isneginf(lse[0, 128:]).all()
    assert np.isfinite(lse[0, :128]).all()


def test_blocks_that_no_query_sees_are_not_read():
    case = make_case(spans=[(260, 10), (10, 10)])
    options = AttentionOptions(0.125, window=30)  # keys 231 and on: block 3 of 64 keys and the one after it
    unread = case.table[0, : 3 * 64 // 16]
    poisoned = dataclasses.replace(case, pool=case.pool.at[:, :, unread].set(jnp.nan))
    out, lse = run(poisoned, options, PrefillConfig())
    assert max(prefill_errors(case, options, out, lse)) <= case.tolerance


FREE_WAIT = "            pl.when(block >= start + stages)(partial(plgpu.barrier_wait, free[which].at[slot]))\n"
EARLY = "            pl.when(block > start + stages)(partial(plgpu.barrier_wait, free[which].at[slot]))\n"
MUTANTS = {
    "keys not waited for": (hopper_prefill, [("    plgpu.barrier_wait(arrived[0].at[slot])\n", "")]),
    "values not waited for": (hopper_prefill, [("    plgpu.barrier_wait(arrived[1].at[slot])\n", "")]),
    "buffer filled again too early": (hopper_prefill, [(FREE_WAIT, EARLY)]),
    "one key too many": (common, [("key_positions <= query", "key_positions <= 1 + query")]),
    "mask left out too often": (common, [("lax.div(lowest + 1, block", "lax.div(highest + 1, block")]),
    "wrong page of a run": (hopper_blocks, [("pl.ds(pages[0] * page", "pl.ds(pages[1] * page")]),
    "wrong scattered page": (hopper_blocks, [("pl.ds(page * page", "pl.ds(pages[0] * page")]),
    "older values not shrunk": (hopper_prefill, [("common.rescale(mixed, shrink)", "mixed")]),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of memory read before it was filled
@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(name, monkeypatch):
    module, changes = MUTANTS[name]
    kernel = planted(monkeypatch, hopper_prefill, module, changes)
    case = make_case(spans=[(230, 26)], group=4, pages="mixed")
    assert is_found(lambda: prefill_errors(case, PLAIN, *run(case, PLAIN, PrefillConfig(), kernel)), case.tolerance)


def test_shapes_that_do_not_fit_are_errors():
    case = make_case(spans=[(0, 20)])
    with pytest.raises(ValueError, match="40 rows per warpgroup: not a multiple of 64"):
        run(case, PLAIN, PrefillConfig(block_queries=40))
    with pytest.raises(ValueError, match="a table of 4 pages is not whole blocks of 8"):
        run(case, PLAIN, PrefillConfig(block_tokens=128))
