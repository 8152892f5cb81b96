"""Every implementation of paged attention against the reference, over the shapes and options that models use."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.paged_attention import api
from kernels_pallas.paged_attention.api import AttentionOptions

IMPLEMENTATIONS = ["xla", "native"]  # mosaic's, which is for GPUs, is tested interpreted in mosaic/test_attention.py


@pytest.fixture(autouse=True, scope="session")
def prepared(tmp_path_factory):
    for name in IMPLEMENTATIONS:
        api.prepare(name, tmp_path_factory.mktemp("native"))


PAGE_TOKENS, HEAD_DIM, PAGES, WIDTH = 16, 8, 200, 40


def _case(seed: int, *, heads: int, kv_heads: int, tokens: int, firsts: list[int], counts: list[int]):
    """Rows with random contexts, each in its own random pages, and a pool full of finite noise."""
    rng = np.random.default_rng(seed)
    rows = len(firsts)
    table = np.zeros((rows, WIDTH), np.int32)
    free = list(rng.permutation(np.arange(1, PAGES)))
    for row, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        for column in range(-(-(first + count) // PAGE_TOKENS)):
            table[row, column] = free.pop()
    shape = api.pool_shape("reference", pages=PAGES, page_tokens=PAGE_TOKENS, kv_heads=kv_heads, head_dim=HEAD_DIM)
    normal = lambda *size: jnp.asarray(rng.standard_normal(size), jnp.float32)  # noqa: E731
    return (
        normal(rows, tokens, heads, HEAD_DIM),
        normal(*shape),
        normal(rows, tokens, kv_heads, HEAD_DIM),
        normal(rows, tokens, kv_heads, HEAD_DIM),
        jnp.asarray(table),
        jnp.asarray(firsts, jnp.int32),
        jnp.asarray(counts, jnp.int32),
    )


CASES = {
    "rows of very different length": dict(heads=4, kv_heads=2, tokens=1, firsts=[0, 5, 300, 639], counts=[1] * 4),
    "decode with padding rows": dict(heads=3, kv_heads=1, tokens=1, firsts=[17, 0, 0], counts=[1, 0, 0]),
    "nothing but padding": dict(heads=2, kv_heads=2, tokens=1, firsts=[0, 0], counts=[0, 0]),
    "fresh prompt": dict(heads=2, kv_heads=2, tokens=64, firsts=[0], counts=[64]),
    "padded chunk after a context": dict(heads=9, kv_heads=3, tokens=64, firsts=[250], counts=[33]),
    "chunk of several query blocks": dict(heads=2, kv_heads=1, tokens=300, firsts=[37], counts=[270]),
    "two prompts": dict(heads=4, kv_heads=4, tokens=20, firsts=[3, 260], counts=[20, 7]),
    "one key head for sixteen": dict(heads=16, kv_heads=1, tokens=5, firsts=[100], counts=[5]),
}
OPTIONS = {
    "plain": AttentionOptions(0.35),
    "window": AttentionOptions(0.35, window=24),
    "window of one": AttentionOptions(0.35, window=1),
    "softcap": AttentionOptions(1.0, softcap=2.0),
    "window and softcap": AttentionOptions(0.5, window=300, softcap=5.0),
}


@cache
def _jitted(name: str, options: AttentionOptions):
    return jax.jit(lambda *arrays, sinks=None: api.attend(name, *arrays, options, sinks))


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_the_reference(name, case, options):
    queries, pool, keys, values, table, first, count = _case(1, **case)
    expected_pool = api.write("reference", pool, keys, values, table, first, count)
    got_pool = api.write(name, pool, keys, values, table, first, count)
    expected = _jitted("reference", options)(queries, expected_pool, table, first, count)
    got = _jitted(name, options)(queries, got_pool, table, first, count)
    for row, real in enumerate(case["counts"]):
        np.testing.assert_allclose(got[row, :real], expected[row, :real], atol=2e-5)
    assert np.isfinite(got).all()


@pytest.mark.parametrize("name", ["reference", *IMPLEMENTATIONS])
def test_write_touches_only_its_tokens_and_the_scratch_page(name):
    case = CASES["padded chunk after a context"]
    _, pool, keys, values, table, first, count = _case(2, **case)
    after = np.asarray(api.write(name, pool, keys, values, table, first, count))
    changed = {(int(page), int(offset)) for _, _, page, offset, _ in np.argwhere(after != np.asarray(pool))}
    positions = range(250, 283)
    wanted = {(int(table[0, position // PAGE_TOKENS]), position % PAGE_TOKENS) for position in positions}
    assert wanted <= changed
    assert all(page == 0 for page, _ in changed - wanted)
    for offset, position in enumerate(positions):
        page, line = int(table[0, position // PAGE_TOKENS]), position % PAGE_TOKENS
        np.testing.assert_array_equal(after[0, :, page, line], keys[0, offset])
        np.testing.assert_array_equal(after[1, :, page, line], values[0, offset])


def test_reference_is_softmax_attention():
    """The specification itself against a few lines of numpy that know nothing of pages."""
    queries, pool, keys, values, table, first, count = _case(3, heads=4, kv_heads=2, tokens=6, firsts=[0], counts=[6])
    pool = api.write("reference", pool, keys, values, table, first, count)
    got = api.attend("reference", queries, pool, table, first, count, AttentionOptions(0.5, window=3))
    for token in range(6):
        for head in range(4):
            seen = slice(max(0, token - 2), token + 1)
            scores = 0.5 * np.asarray(keys)[0, seen, head // 2] @ np.asarray(queries)[0, token, head]
            weights = np.exp(scores - scores.max())
            mixed = (weights / weights.sum()) @ np.asarray(values)[0, seen, head // 2]
            np.testing.assert_allclose(got[0, token, head], mixed, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sinks_agree_with_the_reference(case, options):
    queries, pool, keys, values, table, first, count = _case(5, **case)
    sinks = jnp.linspace(-2.0, 3.0, queries.shape[2])
    pool = api.write("reference", pool, keys, values, table, first, count)
    expected, got = (
        _jitted(name, options)(queries, pool, table, first, count, sinks=sinks) for name in ("reference", "xla")
    )
    for row, real in enumerate(case["counts"]):
        np.testing.assert_allclose(got[row, :real], expected[row, :real], atol=2e-5)
    assert np.isfinite(got).all()


def test_a_sink_takes_its_share_of_the_weights():
    """As the reference has it: what is mixed without sinks, times the share of the weights that is left."""
    arrays = _case(6, heads=4, kv_heads=2, tokens=2, firsts=[7], counts=[2])
    queries, pool, _, _, table, first, count = arrays
    sinks = jnp.asarray([-1.0, 0.0, 1.0, 5.0])
    options = AttentionOptions(0.5, window=6)
    plain, got = (api.attend("reference", queries, pool, table, first, count, options, each) for each in (None, sinks))
    for token in range(2):
        for head in range(4):
            positions = np.arange(max(0, 7 + token - 5), 7 + token + 1)
            keys = np.asarray(pool)[
                0, head // 2, np.asarray(table)[0, positions // PAGE_TOKENS], positions % PAGE_TOKENS
            ]
            total = np.exp(0.5 * keys @ np.asarray(queries)[0, token, head]).sum()
            share = total / (total + np.exp(float(sinks[head])))
            np.testing.assert_allclose(got[0, token, head], plain[0, token, head] * share, atol=1e-5)


def test_native_says_that_it_has_no_sinks():
    queries, pool, _, _, table, first, count = _case(7, heads=2, kv_heads=2, tokens=1, firsts=[3], counts=[1])
    with pytest.raises(ValueError, match="native paged attention has no sinks"):
        api.attend("native", queries, pool, table, first, count, AttentionOptions(1.0), jnp.zeros(2))


def test_an_unknown_implementation_is_an_error_that_names_the_others():
    with pytest.raises(ValueError, match="no paged attention named 'fast'.*reference"):
        api.pool_shape("fast", pages=2, page_tokens=16, kv_heads=1, head_dim=8)


def test_only_mosaic_bounds_what_a_pool_may_be():
    sizes = dict(page_tokens=8, heads=2, kv_heads=2, head_dim=8, dtype=jnp.dtype("float32"))
    for name in ("reference", *IMPLEMENTATIONS):
        api.check(name, **sizes)
    with pytest.raises(ValueError, match="not in float32"):
        api.check("mosaic", **sizes)


def test_pallas_is_imported_for_gpus_alone():
    """It takes half a second of every start."""
    code = (
        "import sys; from kernels_pallas.paged_attention import api;"
        "api.pool_shape({name!r}, pages=2, page_tokens=16, kv_heads=1, head_dim=8);"
        "print('jax.experimental.pallas.mosaic_gpu' in sys.modules)"
    )
    for name, imported in (("native", "False"), ("mosaic", "True")):
        command = [sys.executable, "-c", code.format(name=name)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == imported


def test_shapes_that_do_not_fit_are_errors():
    queries, pool, keys, values, table, first, count = _case(4, heads=2, kv_heads=2, tokens=1, firsts=[3], counts=[1])
    with pytest.raises(ValueError, match="1 rows, but table"):
        api.attend("reference", queries, pool, table, jnp.zeros(2, jnp.int32), count, AttentionOptions(1.0))
    with pytest.raises(ValueError, match=r"2 query heads, but sinks \(3,\)"):
        api.attend("reference", queries, pool, table, first, count, AttentionOptions(1.0), jnp.zeros(3))
    with pytest.raises(ValueError, match="differ"):
        api.write("reference", pool, keys, values[:, :, :1], table, first, count)
