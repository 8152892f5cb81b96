"""Prefill for Ampere: interpreted under race detection against the specification, and lowered for the GPUs."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.paged_attention.mosaic import ampere_attention, ampere_blocks, ampere_prefill, common
from kernels_pallas.paged_attention.mosaic.ampere_prefill import prefill
from kernels_pallas.paged_attention.mosaic.configs import PrefillConfig
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu
from kernels_pallas.paged_attention.options import AttentionOptions
from tests.kernels.mosaic.cases import make_case, prefill_errors
from tests.kernels.mosaic.interpret_mma import INTERPRET
from tests.kernels.mosaic.mutants import is_found, planted

pytestmark = pytest.mark.timeout(120)  # a barrier that waits for one arrival too many waits for ever

PLAIN = AttentionOptions(0.125)


def _prefilled(case, options, config, module=ampere_prefill):
    function = partial(module.prefill, options=options, config=config, interpret=INTERPRET)
    return jax.jit(function)(case.queries, case.pool, case.table, case.first, case.count)


CASES = {
    "fresh prompts around pages and blocks": (
        dict(spans=[(0, 1), (0, 16), (0, 17), (0, 64), (0, 65), (0, 0)]),
        PLAIN,
        PrefillConfig(),
    ),
    "ragged chunks after a context, tiles within a group": (
        dict(spans=[(63, 30), (130, 1), (0, 0), (5, 44)], group=3, pages="mixed"),
        PLAIN,
        PrefillConfig(),
    ),
    "runs of pages, three stages": (
        dict(spans=[(150, 20)], group=4, kv_heads=2, head_dim=128, pages="run"),
        AttentionOptions(0.09),
        PrefillConfig(stages=3),
    ),
    "a window that leaves blocks out": (
        dict(spans=[(190, 12), (70, 3)], group=16, pages="mixed", block_tokens=32),
        AttentionOptions(0.125, window=70),
        PrefillConfig(block_tokens=32),
    ),
    "a window of one": (dict(spans=[(60, 10)]), AttentionOptions(0.125, window=1), PrefillConfig(block_queries=16)),
    "a window that begins with a block's last key": (
        dict(spans=[(126, 1), (190, 1)]),
        AttentionOptions(0.125, window=64),
        PrefillConfig(),
    ),
    "softcap in float16": (
        dict(spans=[(40, 40)], group=4, head_dim=128, dtype="float16"),
        AttentionOptions(0.3, softcap=2.0),
        PrefillConfig(block_queries=128),
    ),
    "a page for a block, pages shared": (
        dict(spans=[(64, 9), (64, 5)], group=3, page_tokens=64, shared_pages=1),
        PLAIN,
        PrefillConfig(block_queries=32),
    ),
    "blocks of 32 of a large head": (
        dict(spans=[(50, 20)], head_dim=256, block_tokens=32),
        AttentionOptions(0.0625),
        PrefillConfig(block_queries=32, block_tokens=32),
    ),
    "a head size that is no power of two": (
        dict(spans=[(50, 20)], head_dim=96, group=2),
        AttentionOptions(0.1),
        PrefillConfig(),
    ),
}


@pytest.mark.parametrize(("arguments", "options", "config"), CASES.values(), ids=CASES)
def test_agrees_with_the_specification(arguments, options, config):
    case = make_case(**arguments)
    out, lse = _prefilled(case, options, config)
    assert out.shape == case.queries.shape and lse.shape == out.shape[:-1]
    assert out.dtype == lse.dtype == jnp.float32
    assert max(prefill_errors(case, options, out, lse)) < case.tolerance


def test_more_room_than_queries_is_harmless():
    case = make_case(spans=[(0, 3), (0, 0)], min_queries=70)
    out, lse = _prefilled(case, PLAIN, PrefillConfig())
    assert max(prefill_errors(case, PLAIN, out, lse)) < case.tolerance
    assert not out[0, 64:].any() and not out[1].any()  # tiles without a real query
    assert np.isneginf(lse[0, 64:]).all() and np.isneginf(lse[1]).all()
    assert np.isfinite(lse[0, :64]).all()


WAIT = "            plgpu.barrier_wait(self.barriers[which].at[slot])\n"
MUTANTS = {
    "keys not waited for": (ampere_blocks, [(WAIT, "            if which == 1:\n    " + WAIT)]),
    "values not waited for": (ampere_blocks, [(WAIT, "            if which == 0:\n    " + WAIT)]),
    "buffer filled again too early": (
        ampere_blocks,
        [
            ("in range(self._stages - 1)", "in range(self._stages)"),
            ("block + (self._stages - 1)", "block + self._stages"),
        ],
    ),
    "wrong page of a run": (ampere_blocks, [("self._copy_run(block, pages[0])", "self._copy_run(block, pages[1])")]),
    "wrong scattered page": (
        ampere_blocks,
        [("pl.ds(page * self.page_tokens, self.page_tokens)", "pl.ds(pages[0] * self.page_tokens, self.page_tokens)")],
    ),
    "one key too many": (common, [("key_positions <= query", "key_positions <= 1 + query")]),
    "mask left out too often": (common, [("lax.div(lowest + 1, block", "lax.div(highest + 1, block")]),
    "a block too many taken for whole": (ampere_prefill, [("block < full_stop)", "block < full_stop + 1)")]),
    "older sums not shrunk": (common, [("total * shrink + weights", "total + weights")]),
    "older values not shrunk": (ampere_attention, [("rescale(mixed, shrink)", "mixed")]),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of memory read before it was filled
@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(name, monkeypatch):
    module, changes = MUTANTS[name]
    kernel = planted(monkeypatch, ampere_prefill, module, changes)
    case = make_case(spans=[(230, 26)], group=4, pages="mixed")
    arguments = (case, PLAIN, PrefillConfig(), kernel)
    assert is_found(lambda: prefill_errors(case, PLAIN, *_prefilled(*arguments)), case.tolerance)


@pytest.mark.parametrize(
    ("arguments", "config", "message"),
    [
        (dict(), PrefillConfig(block_queries=24), "24 query rows"),
        (dict(), PrefillConfig(stages=1), "1 stages"),
        (dict(page_tokens=64), PrefillConfig(block_tokens=32), "blocks of 32 tokens"),
        (dict(head_dim=80), PrefillConfig(), "head size 80"),
    ],
)
def test_what_does_not_fit_is_an_error(arguments, config, message):
    sizes = {"group": 1, "page_tokens": 16, "head_dim": 64} | arguments
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(partial(prefill, options=PLAIN, config=config), *_shapes(1, 16, 64, kv_heads=1, **sizes))


def _shapes(rows, tokens, context, *, kv_heads, group, head_dim, page_tokens, dtype="bfloat16"):
    width = context // page_tokens
    row = jax.ShapeDtypeStruct((rows,), jnp.int32)
    return (
        jax.ShapeDtypeStruct((rows, tokens, kv_heads, group, head_dim), dtype),
        jax.ShapeDtypeStruct((2, kv_heads, 1 + rows * width, page_tokens, head_dim), dtype),
        jax.ShapeDtypeStruct((rows, width), jnp.int32),
        row,
        row,
    )


@pytest.mark.parametrize("gpu", ["a10g", "a100"])
@pytest.mark.parametrize(
    ("sizes", "options", "config"),
    [
        (dict(kv_heads=8, group=4, head_dim=128, page_tokens=16), PLAIN, PrefillConfig()),
        (dict(kv_heads=3, group=3, head_dim=64, page_tokens=16), PLAIN, PrefillConfig()),
        (
            dict(kv_heads=4, group=2, head_dim=256, page_tokens=32, dtype="float16"),
            AttentionOptions(0.06, window=1024, softcap=50.0),
            PrefillConfig(block_queries=32, block_tokens=32),
        ),
        (dict(kv_heads=2, group=16, head_dim=96, page_tokens=64), PLAIN, PrefillConfig()),
    ],
    ids=["llama-3-8b", "smollm2", "gemma", "head-size-96"],
)
def test_lowers(gpu, sizes, options, config):
    function = partial(prefill, options=options, config=config)
    with abstract_gpu(gpu):
        lowered = jax.jit(function).trace(*_shapes(4, 512, 4096, **sizes)).lower(lowering_platforms=("cuda",))
    assert "mosaic_gpu" in lowered.as_text()
