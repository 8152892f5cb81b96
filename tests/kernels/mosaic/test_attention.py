"""Paged attention as a whole by the Mosaic kernels, interpreted, against the specification: heads and tables padded."""

from __future__ import annotations

import re
from functools import partial
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.paged_attention import api
from kernels_pallas.paged_attention.mosaic import attention as attention_module
from kernels_pallas.paged_attention.mosaic.attention import MosaicAttention
from kernels_pallas.paged_attention.mosaic.gpus import gpu_named
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu
from kernels_pallas.paged_attention.options import AttentionOptions
from tests.kernels.mosaic.cases import relative_error
from tests.kernels.mosaic.interpret_mma import INTERPRET
from tests.kernels.mosaic.mutants import mutated

pytestmark = pytest.mark.timeout(120)

PAGE_TOKENS, PAGES, WIDTH = 16, 40, 9  # the table is no whole number of blocks
TOLERANCE = 3e-3


def _case(*, head_dim: int, group: int, tokens: int, firsts: list[int], counts: list[int], kv_heads: int = 1):
    """Rows over scattered pages of a pool of noise, new keys and values, and queries; bfloat16 numbers in float32."""
    rng = np.random.default_rng(5)
    rows = len(firsts)
    table = np.zeros((rows, WIDTH), np.int32)
    free = list(rng.permutation(np.arange(1, PAGES)))
    for row, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        for column in range(-(-(first + count) // PAGE_TOKENS)):
            table[row, column] = free.pop()

    def noise(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape), jnp.bfloat16).astype(jnp.float32)

    pool = noise(2, kv_heads, PAGES, PAGE_TOKENS, head_dim)
    new = noise(2, rows, tokens, kv_heads, head_dim)
    places = jnp.asarray(table), jnp.asarray(firsts, jnp.int32), jnp.asarray(counts, jnp.int32)
    return noise(rows, tokens, kv_heads * group, head_dim), pool, new, places


DECODE = dict(tokens=1, firsts=[0, 70, 0, 15], counts=[1, 1, 0, 1])  # the third is a padding row
PREFILL = dict(tokens=20, firsts=[0, 75, 0], counts=[20, 7, 0])
CASES = {
    "decode, head size padded": (dict(head_dim=80, group=3, **DECODE), AttentionOptions(0.11), False),
    "decode with sinks": (dict(head_dim=64, group=2, kv_heads=2, **DECODE), AttentionOptions(0.125), True),
    "prefill, head size padded, sinks": (dict(head_dim=80, group=3, **PREFILL), AttentionOptions(0.11), True),
    "prefill with a window": (dict(head_dim=64, group=2, **PREFILL), AttentionOptions(0.125, window=30), False),
}
QUICK = {("a10g", "decode with sinks"), ("h100", "prefill, head size padded, sinks")}


@pytest.mark.parametrize(
    ("gpu", "case"),
    [
        pytest.param(gpu, case, marks=[] if (gpu, case) in QUICK else pytest.mark.slow)
        for gpu in ("h100", "a10g")
        for case in CASES
    ],
)
def test_agrees_with_the_specification(monkeypatch, gpu, case):
    arguments, options, with_sinks = CASES[case]
    monkeypatch.setitem(api.IMPLEMENTATIONS, "mosaic", lambda: MosaicAttention(gpu_named(gpu), INTERPRET))
    queries, pool, new, places = _case(**arguments)
    heads, head_dim = queries.shape[2:]
    sinks = jnp.linspace(-1.0, 4.0, heads) if with_sinks else None
    shape = api.pool_shape("mosaic", pages=PAGES, page_tokens=PAGE_TOKENS, kv_heads=pool.shape[1], head_dim=head_dim)
    padded = jnp.zeros(shape, jnp.bfloat16).at[..., :head_dim].set(pool.astype(jnp.bfloat16))

    @partial(jax.jit, static_argnums=0)
    def step(name: str, pool: jax.Array) -> jax.Array:
        pool = api.write(name, pool, *new, *places)
        return api.attend(name, queries, pool, *places, options, sinks)

    got, expected = step("mosaic", padded), step("reference", pool)
    assert got.dtype == jnp.float32 and got.shape == expected.shape and np.isfinite(got).all()
    for row, count in enumerate(arguments["counts"]):
        if count:
            assert relative_error(got[row, :count], np.asarray(expected[row, :count])) < TOLERANCE


def _write_faults(module: ModuleType) -> list[str]:
    """How a write of ragged rows over page boundaries, with numbers that are none, differs from what it should be."""
    rng = np.random.default_rng(6)
    new = rng.standard_normal((2, 3, 20, 2, 80)).astype(np.float32)
    new[0, 0, 3, 1, 5], new[1, 1, 0, 0, 0] = np.nan, np.inf
    firsts, counts = [9, 16, 0], [20, 1, 0]
    table = np.asarray([[4, 7], [2, 5], [0, 0]], np.int32)
    before = jnp.asarray(rng.standard_normal((2, 2, 9, PAGE_TOKENS, 96)), jnp.bfloat16)
    expected = np.array(before)
    for row, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        for token in range(count):
            page, slot = table[row, (first + token) // PAGE_TOKENS], (first + token) % PAGE_TOKENS
            finite = np.nan_to_num(new[:, row, token], nan=0.0, posinf=0.0)
            expected[:, :, page, slot] = np.pad(finite, ((0, 0), (0, 0), (0, 16)))
    attention = module.MosaicAttention(gpu_named("h100"))
    places = jnp.asarray(table), jnp.asarray(firsts, jnp.int32), jnp.asarray(counts, jnp.int32)
    got = np.asarray(jax.jit(attention.write)(before, *jnp.asarray(new), *places))
    return [str(place) for place in np.argwhere(got != expected)[:, 2:4].tolist()]


def test_a_write_changes_its_own_places_and_no_others():
    assert _write_faults(attention_module) == []


@pytest.mark.parametrize(
    "change",
    [
        ("reference.places(table, first,", "reference.places(table, first + 1,"),
        ("jnp.where(reference.written(table, first, count, tokens, pool.shape[3]), pages, beyond)", "pages"),
        ("pages.reshape(-1), slots", "1 + pages.reshape(-1), slots"),
        ("pages.reshape(-1), slots", "jnp.roll(pages, 1, axis=1).reshape(-1), slots"),
        ("reference.storable(_padded(keys", "reference.storable(_padded(values"),
    ],
)
def test_a_write_with_a_fault_is_found(change):
    assert _write_faults(mutated(attention_module, change))


def test_a_write_is_one_scatter_of_places_that_are_not_repeated():
    attention = MosaicAttention(gpu_named("h100"))
    pool = jax.ShapeDtypeStruct((2, 2, 9, PAGE_TOKENS, 96), jnp.bfloat16)
    new, numbers = jax.ShapeDtypeStruct((2, 1, 2, 80), jnp.float32), jax.ShapeDtypeStruct((2,), jnp.int32)
    table = jax.ShapeDtypeStruct((2, WIDTH), jnp.int32)
    text = jax.jit(attention.write).lower(pool, new, new, table, numbers, numbers).as_text()
    assert re.findall(r'"stablehlo.scatter".*unique_indices = (\w+)', text) == ["true"]


def _lowered(attention: MosaicAttention, head_dim: int, dtype: str, page_tokens: int = 16) -> str:
    pool = jax.ShapeDtypeStruct(attention.pool_shape(8, page_tokens, 2, head_dim), dtype)
    queries = jax.ShapeDtypeStruct((2, 1, 4, head_dim), jnp.float32)
    numbers = jax.ShapeDtypeStruct((2,), jnp.int32)
    table = jax.ShapeDtypeStruct((2, WIDTH), jnp.int32)
    function = jax.jit(lambda *arrays: attention.attend(*arrays, AttentionOptions(0.1)))
    return function.trace(queries, pool, table, numbers, numbers).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize(("gpu", "kernel"), [("a100", "paged_decode_ampere"), ("h200", "paged_decode_hopper")])
def test_kernels_are_those_of_the_gpu_that_is_traced_for(gpu, kernel):
    with abstract_gpu(gpu):
        assert kernel in _lowered(MosaicAttention(), 80, "bfloat16")


def test_what_no_kernel_is_for_is_refused():
    attention = MosaicAttention(gpu_named("h100"))
    with pytest.raises(ValueError, match="in bfloat16 or float16, not in float32"):
        _lowered(attention, 64, "float32")
    with pytest.raises(ValueError, match="pages of 16, 32 or 64 tokens, not of 8"):
        _lowered(attention, 64, "bfloat16", page_tokens=8)
    with pytest.raises(ValueError, match="16 query heads per key/value head at most, not 17"):
        attention.check(16, 34, 2, 64, jnp.dtype("bfloat16"))
    with pytest.raises(ValueError, match="two blocks of 64 tokens of 512 numbers do not fit"):
        MosaicAttention(gpu_named("a10g")).check(64, 4, 2, 512, jnp.dtype("bfloat16"))
    with pytest.raises(ValueError, match="cpu is no NVIDIA GPU"):
        MosaicAttention().check(16, 4, 2, 64, jnp.dtype("bfloat16"))
