"""Passes over a row of logits that are fast on a CPU and add in an order that never depends on the batch.

XLA's reductions along the minor axis are slow on a CPU when anything is fused into them (argmax of 32 x 49,152
takes 1.9 ms, the two folds here 0.45), and may add in another order for another number of rows. So a row is cut
into FOLD contiguous parts that are combined elementwise: column j of the result stands for the elements
j, j + width, j + 2 * width, … The same step repeated gives a tree whose leaves are the vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

FOLD = 16  # parts of a row; also the fan-out of the tree


def split(x: jax.Array, fill: float) -> list[jax.Array]:
    """[R, n] as FOLD parts [R, ceil(n / FOLD)], the last ones filled up."""
    length = x.shape[1]
    width = -(-length // FOLD)
    parts = [x[:, min(k * width, length) : min((k + 1) * width, length)] for k in range(FOLD)]
    return [jnp.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=fill) for part in parts]


def fold(combine: Callable[[jax.Array, jax.Array], jax.Array], parts: Sequence[jax.Array]) -> jax.Array:
    """Combine parts elementwise, left to right."""
    # fused with what follows, XLA would compute it once per use and without vector instructions
    return lax.optimization_barrier(functools.reduce(combine, parts))


def peak(x: jax.Array) -> jax.Array:
    """[R, n] float32 to the largest of each row, [R, 1]; NaN where the row holds one."""
    return jnp.max(fold(jnp.maximum, split(x, -jnp.inf)), axis=1, keepdims=True)


def first_index(x: jax.Array, value: jax.Array) -> jax.Array:
    """[R] int32: the lowest index at which the row equals value [R, 1]; 0 where it never does."""
    parts = split(x, jnp.nan)
    width, nowhere = parts[0].shape[1], x.shape[1]
    column = lax.broadcasted_iota(jnp.int32, (1, width), 1)
    found = [jnp.where(part == value, column + k * width, nowhere) for k, part in enumerate(parts)]
    index = jnp.min(fold(jnp.minimum, found), axis=1)
    return jnp.where(index == nowhere, 0, index)


def count_from(x: jax.Array, floor: jax.Array) -> jax.Array:
    """[R, 1] int32: how many elements of the row are at least floor [R, 1]."""
    parts = [(part >= floor).astype(jnp.int32) for part in split(x, jnp.nan)]
    return jnp.sum(fold(jnp.add, parts), axis=1, keepdims=True, dtype=jnp.int32)


def tree_sums(parts: Sequence[jax.Array]) -> list[jax.Array]:
    """Sums of parts of weights, level by level: [R, width], [R, width / FOLD], … down to the totals [R, 1]."""
    levels = [fold(jnp.add, parts)]
    while levels[-1].shape[1] > 1:
        levels.append(fold(jnp.add, split(levels[-1], 0.0)))
    return levels


def largest(x: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """A few values [R, n] of each row, the count largest among them, and their indices, in no order.

    Only the count columns with the largest maxima can hold one of the largest, so a fraction of lax.top_k's time is
    enough. Past the row's end values are -inf.
    """
    parts = split(x, -jnp.inf)
    width = parts[0].shape[1]
    columns = lax.top_k(fold(jnp.maximum, parts), min(count, width))[1]
    ids = (columns[:, None, :] + lax.broadcasted_iota(jnp.int32, (1, FOLD, 1), 1) * width).reshape(x.shape[0], -1)
    return jnp.take_along_axis(x, ids, axis=1, mode="fill", fill_value=-jnp.inf), ids


def top_values(x: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """The count largest of each row and their indices, [R, count] each, largest first; exact.

    Of equal values the lower index comes first; where more than fit equal the last, any of them may be left out.
    Rows shorter than count are filled up with -inf at index 0.
    """
    values, ids = largest(x, count)
    negated, ids = lax.sort((-values, ids), dimension=1, num_keys=2)
    keep = min(count, x.shape[1])
    gap = ((0, 0), (0, count - keep))
    return jnp.pad(-negated[:, :keep], gap, constant_values=-jnp.inf), jnp.pad(ids[:, :keep], gap)


def kth_largest(x: jax.Array, k: jax.Array, limit: int) -> jax.Array:
    """[R, 1]: the k-th largest of each row, k [R, 1] int32 clipped to 1 .. limit."""
    values = largest(x, limit)[0]
    ordered = lax.top_k(values, min(limit, values.shape[1]))[0]
    return jnp.take_along_axis(ordered, jnp.clip(k, 1, ordered.shape[1]) - 1, axis=1)


def descend(levels: Sequence[jax.Array], leaves: Callable[[jax.Array], jax.Array], uniforms: jax.Array) -> jax.Array:
    """Draw a leaf of each row's tree in proportion to its weight; one of weight 0 is never drawn.

    `levels` come from tree_sums; `leaves` takes indices [R, FOLD] and gives their weights, 0 past the end;
    `uniforms` [R, len(levels)] are in [0, 1). Returns [R] int32. A row without weight gives an index without meaning.
    """
    # the inner levels in one array and one loop: a copy of the step for each level would take long to compile
    tree = jnp.concatenate(levels, axis=1)
    widths = [level.shape[1] for level in levels]
    starts = jnp.asarray([sum(widths[:depth]) for depth in range(len(widths))], jnp.int32)
    steps = jnp.asarray(widths, jnp.int32)
    children = lax.broadcasted_iota(jnp.int32, (1, FOLD), 1)

    def down(step: jax.Array, node: jax.Array) -> jax.Array:
        depth = len(levels) - 1 - step
        index = node + children * steps[depth]
        inside = index < steps[depth - 1]
        weights = jnp.take_along_axis(tree, starts[depth - 1] + jnp.where(inside, index, 0), axis=1)
        uniform = lax.dynamic_slice_in_dim(uniforms, depth, 1, axis=1)
        return node + _choose(jnp.where(inside, weights, 0.0), uniform) * steps[depth]

    node = lax.fori_loop(0, len(levels) - 1, down, jnp.zeros((tree.shape[0], 1), jnp.int32))
    weights = leaves(node + children * widths[0])
    return (node + _choose(weights, uniforms[:, :1]) * widths[0])[:, 0]


def _choose(weights: jax.Array, uniform: jax.Array) -> jax.Array:
    """[R, 1] int32: a column of weights [R, FOLD] by uniform [R, 1]."""
    column = lax.broadcasted_iota(jnp.int32, weights.shape, 1)
    sums = jnp.cumsum(weights, axis=1)
    positive = weights > 0.0
    reached = positive & (sums > uniform * sums[:, -1:])
    first = jnp.min(jnp.where(reached, column, FOLD), axis=1, keepdims=True)
    # rounding can leave the target at the very end
    return jnp.minimum(first, jnp.max(jnp.where(positive, column, 0), axis=1, keepdims=True))
