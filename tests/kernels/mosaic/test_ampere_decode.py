"""Decode for Ampere: interpreted under race detection against the specification, and lowered for the GPUs."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.paged_attention.mosaic import ampere_attention, ampere_blocks, ampere_decode, common
from kernels_pallas.paged_attention.mosaic.ampere_decode import decode
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu
from kernels_pallas.paged_attention.options import AttentionOptions
from tests.kernels.mosaic.cases import decode_errors, make_case
from tests.kernels.mosaic.interpret_mma import INTERPRET
from tests.kernels.mosaic.mutants import is_found, planted

pytestmark = pytest.mark.timeout(120)  # a barrier that waits for one arrival too many waits for ever

PLAIN = AttentionOptions(0.125)


def _decoded(case, options, config, module=ampere_decode):
    function = partial(module.decode, options=options, config=config, interpret=INTERPRET)
    return jax.jit(function)(case.queries[:, 0], case.pool, case.table, case.length)


CASES = {
    "lengths around pages and blocks": (
        dict(lengths=[0, 1, 16, 17, 64, 65]),
        PLAIN,
        DecodeConfig(),
    ),
    "splits of runs of pages": (
        dict(lengths=[65, 200, 1], group=4, head_dim=128, pages="run"),
        AttentionOptions(0.09),
        DecodeConfig(splits=4),
    ),
    "three stages over runs and scattered pages": (
        dict(lengths=[250, 70], group=3, kv_heads=2, pages="mixed"),
        PLAIN,
        DecodeConfig(stages=3),
    ),
    "a window that leaves blocks out": (
        dict(lengths=[200, 71, 1], group=16, pages="mixed"),
        AttentionOptions(0.125, window=70),
        DecodeConfig(splits=4),
    ),
    "a window of one": (dict(lengths=[64, 65, 1]), AttentionOptions(0.125, window=1), DecodeConfig()),
    "softcap in float16": (
        dict(lengths=[100], group=4, head_dim=128, dtype="float16"),
        AttentionOptions(0.3, softcap=2.0),
        DecodeConfig(),
    ),
    "a page for a block, pages shared": (
        dict(lengths=[130, 70], group=3, page_tokens=64, shared_pages=1),
        PLAIN,
        DecodeConfig(splits=2),
    ),
    "blocks of 32 of a large head": (
        dict(lengths=[90], head_dim=256, block_tokens=32),
        AttentionOptions(0.0625),
        DecodeConfig(block_tokens=32),
    ),
    "a head size that is no power of two": (
        dict(lengths=[90], head_dim=96, group=2),
        AttentionOptions(0.1),
        DecodeConfig(),
    ),
}


@pytest.mark.parametrize(("arguments", "options", "config"), CASES.values(), ids=CASES)
def test_agrees_with_the_specification(arguments, options, config):
    spans = [(max(length - 1, 0), min(length, 1)) for length in arguments["lengths"]]
    case = make_case(spans=spans, **{name: value for name, value in arguments.items() if name != "lengths"})
    out, lse = _decoded(case, options, config)
    assert out.shape[2] == lse.shape[2] == config.splits and out.dtype == lse.dtype == jnp.float32
    assert np.isfinite(out).all()
    assert max(decode_errors(case, options, out, lse)) < case.tolerance


def test_nothing_but_rows_without_keys():
    case = make_case(spans=[(0, 0), (0, 0)], kv_heads=2)
    out, lse = _decoded(case, PLAIN, DecodeConfig(splits=2))
    assert not out.any() and np.isneginf(lse).all()


WAIT = "            plgpu.barrier_wait(self.barriers[which].at[slot])\n"
MUTANTS = {
    "keys not waited for": (
        ampere_blocks,
        [(WAIT, "            if which == 1:\n    " + WAIT)],
    ),
    "values not waited for": (
        ampere_blocks,
        [(WAIT, "            if which == 0:\n    " + WAIT)],
    ),
    "buffer filled again too early": (
        ampere_blocks,
        [
            ("in range(self._stages - 1)", "in range(self._stages)"),
            ("block + (self._stages - 1)", "block + self._stages"),
        ],
    ),
    "queries not waited for": (
        ampere_blocks,
        [("        plgpu.barrier_wait(barriers[2])\n", "")],
    ),
    "wrong page of a run": (ampere_blocks, [("self._copy_run(block, pages[0])", "self._copy_run(block, pages[1])")]),
    "wrong scattered page": (
        ampere_blocks,
        [("pl.ds(page * self.page_tokens, self.page_tokens)", "pl.ds(pages[0] * self.page_tokens, self.page_tokens)")],
    ),
    "values of another head": (
        ampere_blocks,
        [("source = self.pool.at[which, self.head,", "source = self.pool.at[which, 0,")],
    ),
    "everything a run": (common, [("run &= page == pages[0] + index", "pass")]),
    "one key too many": (ampere_decode, [("scores, block, seen - 1,", "scores, block, seen,")]),
    "older values not shrunk": (ampere_attention, [("rescale(mixed, shrink)", "mixed")]),
    "last block left out": (common, [("lax.div(length + (block_tokens - 1), block", "lax.div(length, block")]),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of memory read before it was filled
@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(name, monkeypatch):
    module, changes = MUTANTS[name]
    kernel = planted(monkeypatch, ampere_decode, module, changes)
    case = make_case(spans=[(249, 1)], kv_heads=2, pages="mixed")
    assert is_found(lambda: decode_errors(case, PLAIN, *_decoded(case, PLAIN, DecodeConfig(), kernel)), case.tolerance)


def test_a_copy_without_a_fault_passes(monkeypatch):
    kernel = planted(monkeypatch, ampere_decode, common, [])
    case = make_case(spans=[(249, 1)], kv_heads=2, pages="mixed")
    out, lse = _decoded(case, PLAIN, DecodeConfig(), kernel)
    assert max(decode_errors(case, PLAIN, out, lse)) <= case.tolerance


@pytest.mark.parametrize(
    ("arguments", "config", "message"),
    [
        (dict(group=17), DecodeConfig(), "17 query heads"),
        (dict(), DecodeConfig(stages=1), "1 stages"),
        (dict(page_tokens=64), DecodeConfig(block_tokens=32), "blocks of 32 tokens"),
        (dict(head_dim=80), DecodeConfig(), "head size 80"),
    ],
)
def test_what_does_not_fit_is_an_error(arguments, config, message):
    sizes = {"group": 1, "page_tokens": 16, "head_dim": 64} | arguments
    shapes = _shapes(1, 64, kv_heads=1, **sizes)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(partial(decode, options=PLAIN, config=config), *shapes)


def _shapes(rows, context, *, kv_heads, group, head_dim, page_tokens, dtype="bfloat16"):
    width = context // page_tokens
    return (
        jax.ShapeDtypeStruct((rows, kv_heads, group, head_dim), dtype),
        jax.ShapeDtypeStruct((2, kv_heads, 1 + rows * width, page_tokens, head_dim), dtype),
        jax.ShapeDtypeStruct((rows, width), jnp.int32),
        jax.ShapeDtypeStruct((rows,), jnp.int32),
    )


@pytest.mark.parametrize("gpu", ["a10g", "a100"])
@pytest.mark.parametrize(
    ("sizes", "options", "config"),
    [
        (dict(kv_heads=8, group=4, head_dim=128, page_tokens=16), PLAIN, DecodeConfig(splits=4)),
        (dict(kv_heads=3, group=3, head_dim=64, page_tokens=16), PLAIN, DecodeConfig(splits=4, stages=3)),
        (
            dict(kv_heads=4, group=2, head_dim=256, page_tokens=32, dtype="float16"),
            AttentionOptions(0.06, window=1024, softcap=50.0),
            DecodeConfig(block_tokens=32),
        ),
        (dict(kv_heads=2, group=16, head_dim=96, page_tokens=64), PLAIN, DecodeConfig()),
    ],
    ids=["llama-3-8b", "smollm2", "gemma", "head-size-96"],
)
def test_lowers(gpu, sizes, options, config):
    function = partial(decode, options=options, config=config)
    with abstract_gpu(gpu):
        lowered = jax.jit(function).trace(*_shapes(8, 4096, **sizes)).lower(lowering_platforms=("cuda",))
    assert "mosaic_gpu" in lowered.as_text()
