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
