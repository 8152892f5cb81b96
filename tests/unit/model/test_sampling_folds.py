from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from andes_jax.model import sampling_folds as folds

WIDTHS = [1, 16, 17, 500]


def some_rows(width: int, rows: int = 6) -> np.ndarray:
    x = np.random.default_rng(width).normal(size=(rows, width)).astype(np.float32)
    x[1] = 0.5  # all equal
    x[2, width // 2 :] = -np.inf
    x[2, 0] = 1e30
    x[3] = np.round(x[3])  # many equal
    return x


@pytest.mark.parametrize("width", WIDTHS)
def test_reductions_agree_with_numpy(width: int) -> None:
    x = some_rows(width)
    highest = folds.peak(x)
    assert np.array_equal(highest[:, 0], x.max(axis=1))
    assert np.array_equal(folds.first_index(x, highest), x.argmax(axis=1))
    assert np.array_equal(folds.count_from(x, jnp.zeros((6, 1)))[:, 0], (x >= 0).sum(axis=1))
    levels = folds.tree_sums(folds.split(np.abs(x[[0, 1, 3]]), 0.0))
    assert levels[-1].shape == (3, 1)
    assert np.allclose(levels[-1][:, 0], np.abs(x[[0, 1, 3]]).sum(axis=1, dtype=np.float64), rtol=1e-6)


def test_nan_is_the_peak_of_its_row_and_nowhere_found() -> None:
    x = some_rows(17)
    x[0, 16] = np.nan
    highest = folds.peak(x)
    assert np.isnan(highest[0, 0]) and np.isfinite(highest[1:]).all()
    assert folds.first_index(x, highest)[0] == 0


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 20])
def test_top_values_are_exact_and_equals_come_in_order(width: int, count: int) -> None:
    x = some_rows(width)
    values, ids = folds.top_values(jnp.asarray(x), count)
    keep = min(count, width)
    order = np.argsort(-x, axis=1, kind="stable")[:, :keep]
    assert np.array_equal(values[:, :keep], np.take_along_axis(x, order, axis=1))
    assert np.all(np.asarray(values)[:, keep:] == -np.inf) and values.shape == ids.shape == (6, count)
    finite = np.asarray(values) > -np.inf
    found = np.take_along_axis(x, np.asarray(ids), axis=1)
    assert np.array_equal(found[finite], np.asarray(values)[finite])
    assert np.array_equal(np.asarray(ids)[[0, 1], :keep], order[[0, 1]])
    assert all(len(set(row[:keep])) == keep for row in np.asarray(ids)[[0, 1, 3]])


@pytest.mark.parametrize("width", WIDTHS)
def test_kth_largest_is_exact(width: int) -> None:
    x = some_rows(width)
    k = np.minimum(np.array([[1], [2], [1], [5], [16], [20]], np.int32), width)
    wanted = np.take_along_axis(-np.sort(-x, axis=1), k - 1, axis=1)
    assert np.array_equal(folds.kth_largest(jnp.asarray(x), k, 20), wanted)


@jax.jit
def descend(weights: jax.Array, uniforms: jax.Array) -> jax.Array:
    def leaves(index: jax.Array) -> jax.Array:
        return jnp.take_along_axis(weights, index, axis=1, mode="fill", fill_value=0.0)

    return folds.descend(folds.tree_sums(folds.split(weights, 0.0)), leaves, uniforms)


@pytest.mark.parametrize("width", [17, 500])
def test_descent_reaches_exactly_the_leaves_with_weight(width: int) -> None:
    depth = len(folds.tree_sums(folds.split(jnp.ones((1, width)), 0.0)))
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((400, width)) < 0.05, rng.random((400, width)), 0.0).astype(np.float32)
    weights[:, width - 1] = 1e-20
    last = np.float32(1 - 2.0**-24)
    for uniforms in (np.zeros((400, depth)), np.full((400, depth), last), rng.random((400, depth))):
        leaf = descend(weights, np.minimum(uniforms, last).astype(np.float32))
        assert np.all(weights[np.arange(400), leaf] > 0)


def test_descent_follows_the_weights() -> None:
    weights = np.tile(np.arange(17, dtype=np.float32), (4000, 1))
    uniforms = np.random.default_rng(1).random((4000, 2)).astype(np.float32)
    shares = np.bincount(descend(weights, uniforms), minlength=17) / 4000
    assert np.abs(shares - np.arange(17) / 136).max() < 0.02
