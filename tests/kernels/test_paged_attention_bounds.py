"""What every implementation of paged attention does alike at its bounds: shapes that do not fit, numbers that overflow,
tokens past the table's end."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.paged_attention import api
from kernels_pallas.paged_attention.api import AttentionOptions
from kernels_pallas.paged_attention.mosaic.attention import MosaicAttention
from kernels_pallas.paged_attention.mosaic.gpus import gpu_named
from tests.kernels.mosaic.interpret_mma import INTERPRET

pytestmark = pytest.mark.timeout(120)

NAMES = ["reference", "xla", "native", "mosaic"]
PLAIN = AttentionOptions(0.1)


@pytest.fixture(autouse=True)
def prepared(monkeypatch, tmp_path_factory):
    monkeypatch.setitem(api.IMPLEMENTATIONS, "mosaic", lambda: MosaicAttention(gpu_named("h100"), INTERPRET))
    api.prepare("native", tmp_path_factory.getbasetemp() / "native")


def attend(name, *, queries=(2, 1, 4, 64), pool=(2, 2, 8, 16, 64), dtype="bfloat16", table=(2, 4), numbers="int32"):
    zeros = jnp.zeros
    rows = queries[:1]
    places = zeros(table, numbers), zeros(rows, "int32"), jnp.ones(rows, "int32")
    return jax.eval_shape(lambda *arrays: api.attend(name, *arrays, PLAIN), zeros(queries), zeros(pool, dtype), *places)


def write(name, *, new=(2, 3, 2, 64), pool=(2, 2, 8, 16, 64), dtype="bfloat16", table=(2, 4), numbers="int32"):
    zeros = jnp.zeros
    places = zeros(table, "int32"), zeros((2,), numbers), jnp.ones((2,), "int32")
    return jax.eval_shape(lambda *arrays: api.write(name, *arrays), zeros(pool, dtype), zeros(new), zeros(new), *places)


ROWS = "one of each at least, got "
POOL = r"key/value heads of \d+ are kept in a pool \(.*\), not "
REFUSED = {
    "query heads that are no multiple": (attend, dict(queries=(2, 1, 5, 64)), "5 query heads are no multiple of 2"),
    "fewer query heads": (attend, dict(queries=(2, 1, 1, 64)), "1 query heads are no multiple of 2"),
    "queries larger than the pool's": (attend, dict(queries=(2, 1, 4, 128)), POOL + r"\(2, 2, 8, 16, 64\)"),
    "queries smaller than the pool's": (attend, dict(queries=(2, 1, 4, 32)), "2 " + POOL),
    "a pool of four dimensions": (attend, dict(pool=(2, 8, 16, 64)), r"got a pool \(2, 8, 16, 64\)"),
    "a pool of three kinds": (attend, dict(pool=(3, 2, 8, 16, 64)), POOL + r"\(3, 2"),
    "a pool without heads": (attend, dict(pool=(2, 0, 8, 16, 64)), "0 " + POOL),
    "a pool of whole numbers": (attend, dict(dtype="int8"), "a pool of int8"),
    "a table of fractions": (attend, dict(numbers="float32"), "table of float32, first of int32, count of int32"),
    "a table without pages": (attend, dict(table=(2, 0)), r"a table of no pages, \(2, 0\)"),
    "no rows": (attend, dict(queries=(0, 1, 4, 64), table=(0, 4)), ROWS + r"\(0, 1, 4, 64\)"),
    "no tokens": (attend, dict(queries=(2, 0, 4, 64)), ROWS + r"\(2, 0, 4, 64\)"),
    "three key heads for a pool of two": (write, dict(new=(2, 3, 3, 64)), "3 " + POOL),
    "one key head for a pool of two": (write, dict(new=(2, 3, 1, 64)), "1 " + POOL),
    "keys larger than the pool's": (write, dict(new=(2, 3, 2, 128)), "2 key/value heads of 128"),
    "keys of one number": (write, dict(new=(2, 3, 2, 1)), "2 key/value heads of 1 are"),
    "a table of other rows": (write, dict(table=(3, 4)), r"2 rows, but table \(3, 4\)"),
    "positions that are fractions": (write, dict(numbers="float32"), "first of float32"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_its_numbers(name, case):
    operation, arguments, complaint = REFUSED[case]
    operation(name)
    with pytest.raises(ValueError, match=complaint):
        operation(name, **arguments)


def test_a_window_without_keys_is_refused():
    assert AttentionOptions(1.0, window=1).window == 1
    for window in (0, -1):
        with pytest.raises(ValueError, match=f"a window of {window} keys"):
            AttentionOptions(1.0, window=window)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        (dict(heads=5), "5 query heads are no multiple of 2"),
        (dict(heads=1), "1 query heads are no multiple of 2"),
        (dict(head_dim=0), "key/value heads of 0 numbers"),
        (dict(kv_heads=0), "0 key/value heads"),
    ],
)
def test_heads_that_nothing_can_have_are_refused_at_the_start(name, sizes, complaint):
    given = dict(page_tokens=16, heads=4, kv_heads=2, head_dim=64, dtype=jnp.dtype("bfloat16"))
    api.check("reference" if name == "mosaic" else name, **given)
    with pytest.raises(ValueError, match=complaint):
        api.check(name, **given | sizes)
    if name == "mosaic":
        with pytest.raises(ValueError, match=complaint):
            MosaicAttention(gpu_named("h100")).check(*(given | sizes).values())


NUMBERS = [1e5, -7e4, 65504, 65519, 65520, 3.38e38, 3.395e38, 3.4e38, -3.4e38, 6e-8, 1e-7, np.inf, -np.inf, np.nan, 1.5]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_what_the_pool_s_type_cannot_hold_becomes_zero(name, dtype):
    """So that a page that is used again poisons nobody: 0 times infinity is NaN under any mask."""
    new = np.resize(np.asarray(NUMBERS, np.float32), (1, 1, 1, 64))
    pool = jnp.ones((2, 1, 4, 16, 64), dtype)
    places = jnp.asarray([[1, 2]], jnp.int32), jnp.asarray([20], jnp.int32), jnp.asarray([1], jnp.int32)
    got = jax.jit(lambda pool, new: api.write(name, pool, new, -new, *places))(pool, jnp.asarray(new))
    with np.errstate(over="ignore"):
        cast = new[0, 0, 0].astype(jnp.dtype(dtype))
    wanted = np.where(np.isfinite(cast.astype(np.float32)), cast, np.zeros((), cast.dtype))
    np.testing.assert_array_equal(got[0, 0, 2, 4], wanted)
    np.testing.assert_array_equal(got[1, 0, 2, 4], -wanted)
    assert (wanted != 0).sum() > 10 and np.isfinite(np.asarray(got, np.float32)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_used_again_after_an_overflow_poisons_nobody(name):
    dtype = "bfloat16" if name == "native" else "float16"
    huge = jnp.full((1, 1, 1, 64), 3.4e38, jnp.float32)
    pool = jnp.zeros((2, 1, 4, 16, 64), dtype)
    table, one = jnp.asarray([[1, 2]], jnp.int32), jnp.asarray([1], jnp.int32)
    pool = api.write(name, pool, huge, huge, table, jnp.asarray([20], jnp.int32), one)
    out = api.attend(name, jnp.ones((1, 1, 1, 64)), pool, table, jnp.asarray([16], jnp.int32), one, PLAIN)
    assert np.isfinite(out).all()


FIRST, COUNT = [20, 30, 40, 0], [20, 3, 2, 5]  # of a table of 32: past its end from token 12, 2, 0 and never


@pytest.mark.parametrize("name", NAMES)
def test_tokens_past_the_table_s_end_are_not_written(name):
    rng = np.random.default_rng(8)
    new = jnp.asarray(rng.standard_normal((2, 4, 20, 1, 64)), jnp.float32)
    before = jnp.asarray(rng.standard_normal((2, 1, 12, 16, 64)), jnp.float32)
    table = np.arange(1, 9).reshape(4, 2)
    places = jnp.asarray(table, jnp.int32), jnp.asarray(FIRST, jnp.int32), jnp.asarray(COUNT, jnp.int32)
    got = np.asarray(jax.jit(lambda *arrays: api.write(name, *arrays, *places))(before, *new))
    wanted = np.array(before)
    for row, (first, count) in enumerate(zip(FIRST, COUNT, strict=True)):
        for token in range(min(count, 32 - first)):
            wanted[:, :, table[row, (first + token) // 16], (first + token) % 16] = new[:, row, token]
    np.testing.assert_array_equal(got[:, :, 1:], wanted[:, :, 1:])


@pytest.mark.parametrize("name", [*NAMES[:3], pytest.param("mosaic", marks=pytest.mark.slow)])
def test_tokens_past_the_table_s_end_are_padding(name):
    rng = np.random.default_rng(9)
    queries = jnp.asarray(rng.standard_normal((4, 20, 2, 64)), jnp.float32)
    pool = jnp.asarray(rng.standard_normal((2, 1, 12, 16, 64)), jnp.bfloat16)
    table, first = jnp.asarray(np.arange(1, 9).reshape(4, 2), jnp.int32), jnp.asarray(FIRST, jnp.int32)
    real = [12, 2, 0, 5]
    wanted, got = (
        api.attend(each, queries, pool, table, first, jnp.asarray(count, jnp.int32), PLAIN)
        for each, count in (("reference", real), (name, COUNT))
    )
    assert np.isfinite(got).all()
    for row, count in enumerate(real):
        np.testing.assert_allclose(got[row, :count], wanted[row, :count], atol=0.02)
