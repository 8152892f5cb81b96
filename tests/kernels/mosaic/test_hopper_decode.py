"""The decode kernel for Hopper, interpreted on the CPU with its races looked for, against the specification."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic import common, hopper_blocks, hopper_decode
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig
from kernels_pallas.paged_attention.options import AttentionOptions
from tests.kernels.mosaic.cases import Case, decode_errors, make_case
from tests.kernels.mosaic.mutants import is_found, planted

pytestmark = pytest.mark.timeout(120)


def lengths(*keys: int) -> list[tuple[int, int]]:
    """Spans of rows whose last query sees so many keys."""
    return [(max(length - 1, 0), min(length, 1)) for length in keys]


def run(case: Case, options: AttentionOptions, config: DecodeConfig, module=hopper_decode):
    def decode(queries, pool, table, length):
        interpret = plgpu.InterpretGPUParams(detect_races=True)
        return module.decode(queries, pool, table, length, options=options, config=config, interpret=interpret)

    return jax.device_get(jax.jit(decode)(case.queries[:, 0], case.pool, case.table, case.length))


PLAIN = AttentionOptions(0.125)
EDGES = lengths(0, 1, 15, 16, 17, 64, 65)  # of pages of 16 tokens and blocks of 64
CASES = {
    "edges": (dict(spans=EDGES, group=4), PLAIN, DecodeConfig()),
    "edges in runs, 4 splits": (dict(spans=EDGES, group=3, pages="run"), PLAIN, DecodeConfig(splits=4)),
    "4 splits of a long row": (dict(spans=lengths(331, 20), kv_heads=2), PLAIN, DecodeConfig(splits=4)),
    "runs and scattered pages": (
        dict(spans=lengths(320, 150), group=4, head_dim=128, pages="mixed"),
        AttentionOptions(0.09),
        DecodeConfig(stages=3),
    ),
    "shared prefix": (dict(spans=lengths(90, 130, 64), group=2, shared_pages=4), PLAIN, DecodeConfig(splits=2)),
    "sixteen heads, pages of a block": (
        dict(spans=lengths(64, 130), group=16, head_dim=128, page_tokens=64, dtype="float16"),
        AttentionOptions(0.09),
        DecodeConfig(),
    ),
    "window": (
        dict(spans=lengths(0, 5, 200, 257), group=3, page_tokens=32),
        AttentionOptions(0.125, window=70),
        DecodeConfig(splits=2),
    ),
    "window of one": (dict(spans=lengths(1, 65), group=4), AttentionOptions(0.125, window=1), DecodeConfig()),
    "window that begins with a block": (
        dict(spans=lengths(128, 129), group=4),
        AttentionOptions(0.125, window=65),
        DecodeConfig(),
    ),
    "window and softcap": (
        dict(spans=lengths(140, 30), group=8, pages="run", dtype="float16"),
        AttentionOptions(0.5, window=100, softcap=3.0),
        DecodeConfig(splits=2, stages=1),
    ),
    "softcap far from saturation": (dict(spans=lengths(100)), AttentionOptions(0.125, softcap=50.0), DecodeConfig()),
    "softcap in saturation": (dict(spans=lengths(100)), AttentionOptions(40.0, softcap=2.0), DecodeConfig()),
    "head size 80": (dict(spans=lengths(70), head_dim=80), AttentionOptions(0.11), DecodeConfig()),
    "head size 256": (dict(spans=lengths(70), head_dim=256, group=2), AttentionOptions(0.06), DecodeConfig()),
    "blocks of 128": (
        dict(spans=lengths(129, 300), head_dim=96, pages="mixed", block_tokens=128),
        AttentionOptions(0.1),
        DecodeConfig(block_tokens=128),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_specification(name):
    shape, options, config = CASES[name]
    case = make_case(**shape)
    out, lse = run(case, options, config)
    rows, _, kv_heads, group, head_dim = case.queries.shape
    assert out.shape == (rows, kv_heads, config.splits, group, head_dim)
    assert out.dtype == lse.dtype == np.float32 and lse.shape == out.shape[:-1]
    errors = decode_errors(case, options, out, lse)
    assert max(errors) <= case.tolerance, errors


def test_a_split_without_keys_is_zeros_and_minus_infinity():
    case = make_case(spans=lengths(100, 0))
    out, lse = run(case, PLAIN, DecodeConfig(splits=4))  # two blocks, of which splits 0 and 1 read one each
    assert np.isfinite(lse[0, :, :2]).all()
    assert np.isneginf(lse[0, :, 2:]).all() and np.isneginf(lse[1]).all()
    assert not out[0, :, 2:].any() and not out[1].any()


def test_pages_that_end_as_a_run_would_are_no_run():
    case = make_case(spans=lengths(64))
    case = dataclasses.replace(case, table=jnp.asarray([[1, 5, 3, 4]], jnp.int32))
    assert max(decode_errors(case, PLAIN, *run(case, PLAIN, DecodeConfig()))) <= case.tolerance


def test_blocks_before_the_window_are_not_read():
    case = make_case(spans=lengths(260), pages="scattered")
    options = AttentionOptions(0.125, window=30)  # keys 230 and on: block 3 of 64 keys and the one after it
    unread = case.table[0, : 3 * 64 // 16]
    poisoned = case.pool.at[:, :, unread].set(jnp.nan)
    out, _ = run(dataclasses.replace(case, pool=poisoned), options, DecodeConfig(splits=2))
    assert np.isfinite(out).all()


REFILL = "        pl.when(block + stages < stop)(partial(ask, block + stages))\n"
VALUES_WAIT = "        plgpu.barrier_wait(arrived[1].at[slot])\n"
MUTANTS = {
    "keys not waited for": (hopper_decode, [("        plgpu.barrier_wait(arrived[0].at[slot])\n", "")]),
    "values not waited for": (hopper_decode, [(VALUES_WAIT, "")]),
    "buffer filled again too early": (hopper_decode, [(REFILL, ""), (VALUES_WAIT, VALUES_WAIT + REFILL)]),
    "one key too many": (hopper_decode, [("scores, block, seen - 1,", "scores, block, seen,")]),
    "wrong page of a run": (hopper_blocks, [("pl.ds(pages[0] * page", "pl.ds(pages[1] * page")]),
    "wrong scattered page": (hopper_blocks, [("pl.ds(page * page", "pl.ds(pages[0] * page")]),
    "everything a run": (common, [("run &= page == pages[0] + index", "pass")]),
    "older sums not shrunk": (common, [("total * shrink + weights", "total + weights")]),
    "last block left out": (
        common,
        [("lax.div(length + (block_tokens - 1), block", "lax.div(length, block")],
    ),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of memory read before it was filled
@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(name, monkeypatch):
    module, changes = MUTANTS[name]
    kernel = planted(monkeypatch, hopper_decode, module, changes)
    case = make_case(spans=lengths(250), pages="mixed")
    assert is_found(lambda: decode_errors(case, PLAIN, *run(case, PLAIN, DecodeConfig(), kernel)), case.tolerance)


def test_shapes_that_do_not_fit_are_errors():
    case = make_case(spans=lengths(20))
    for config, complaint in (
        (DecodeConfig(block_tokens=40), "blocks of 40 tokens, pages of 16"),
        (DecodeConfig(block_tokens=128), "a table of 4 pages is not whole blocks of 8"),
    ):
        with pytest.raises(ValueError, match=complaint):
            run(case, PLAIN, config)
    narrow = dataclasses.replace(case, pool=case.pool[..., :40], queries=case.queries[..., :40])
    with pytest.raises(ValueError, match="head size 40 is not padded to 64"):
        run(narrow, PLAIN, DecodeConfig())
