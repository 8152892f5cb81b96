"""The draw from what the filters leave: temperature first, then top_k, top_p on what top_k left, min_p.

Every filter is a floor on the logit, so tokens of equal logit are kept or dropped together: top_k keeps all that equal
the k-th, and top_p keeps a token when the tokens strictly more likely hold less than top_p.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from andes_jax.model.sampling_folds import count_from, descend, kth_largest, split, tree_sums
from andes_jax.model.sampling_state import Parameters

LISTED = 64  # a top_k up to this is read off the largest logits, a larger one is searched for
LEVELS = 8  # random words kept apart per attempt; no vocabulary's tree is as deep


def row_keys(rows: Parameters, position: jax.Array) -> jax.Array:
    """One key a row, [R], from its seed, its choice and the draw's position; counter based, so nothing else matters."""

    def key(seed: jax.Array, choice: jax.Array, place: jax.Array) -> jax.Array:
        start = jax.random.wrap_key_data(seed, impl="threefry2x32")
        return jax.random.fold_in(jax.random.fold_in(start, choice), place)

    return jax.vmap(key)(rows.seed, rows.choice, position.astype(jnp.uint32))


def uniforms(keys: jax.Array, attempt: jax.Array, count: int) -> jax.Array:
    """[R, count] float32 in [0, 1), multiples of 2^-24, for keys [R] and the attempt [R] int32 of each row."""
    data = attempt[:, None] * LEVELS + lax.broadcasted_iota(jnp.int32, (1, count), 1)
    fold_each = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))
    words = jax.random.key_data(fold_each(keys, data.astype(jnp.uint32)))[..., 0]
    return (words >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)


def top_k_floor(x: jax.Array, top_k: jax.Array, highest: jax.Array) -> jax.Array:
    """[R, 1]: the top_k-th largest logit of each row, -inf where top_k [R] is 0. `highest` [R, 1] is the largest."""
    wanted = top_k[:, None]
    listed, searched = (wanted > 0) & (wanted <= LISTED), wanted > LISTED
    keep_all = jnp.full_like(highest, -jnp.inf)
    short = lax.cond(jnp.any(listed), lambda: kth_largest(x, wanted, LISTED), lambda: keep_all)
    long = lax.cond(jnp.any(searched), lambda: _search(x, wanted, highest), lambda: keep_all)
    return jnp.where(listed, short, jnp.where(searched, long, keep_all))


def _search(x: jax.Array, wanted: jax.Array, highest: jax.Array) -> jax.Array:
    """Bisection over the float32s in their order: 32 counts find the largest that `wanted` logits reach."""

    def halve(_: jax.Array, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = (low & high) + ((low ^ high) >> 1)  # their mean without overflow
        enough = count_from(x, _to_float(middle)) >= wanted
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    bounds = _to_order(jnp.full_like(highest, -jnp.inf)), _to_order(highest) + 1
    floor = _to_float(lax.fori_loop(0, 32, halve, bounds)[0])
    # where the processor takes subnormal numbers for 0, the search ends at the largest of them
    return jnp.where(jnp.abs(floor) < jnp.finfo(jnp.float32).tiny, 0.0, floor)


def _to_order(x: jax.Array) -> jax.Array:
    """float32 as int32 that sort alike."""
    bits = lax.bitcast_convert_type(x, jnp.int32)
    return jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _to_float(order: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(jnp.where(order < 0, order ^ 0x7FFFFFFF, order), jnp.float32)


class _Filters(NamedTuple):
    """All [R, 1]."""

    highest: jax.Array  # the largest logit
    inverse: jax.Array  # 1 / temperature
    k_floor: jax.Array  # top_k keeps logits from here on
    floor: jax.Array  # top_k and min_p keep logits from here on
    top_p: jax.Array
    nucleus: jax.Array  # bool: top_p leaves something out

    def weights(self, part: jax.Array, keep: jax.Array) -> jax.Array:
        """Probabilities relative to the most likely token, 0 where not kept."""
        return jnp.where(keep, jnp.exp((part - self.highest) * self.inverse), 0.0)


def _filters(x: jax.Array, highest: jax.Array, rows: Parameters, active: jax.Array) -> _Filters:
    temperature = jnp.where(rows.temperature > 0.0, rows.temperature, 1.0)[:, None]
    top_k = jnp.where(active, rows.top_k, 0)
    k_floor = lax.cond(jnp.any(top_k > 0), top_k_floor, lambda *_: jnp.full_like(highest, -jnp.inf), x, top_k, highest)
    p_floor = jnp.minimum(highest + temperature * jnp.log(rows.min_p[:, None]), highest)
    nucleus = (rows.top_p < 1.0)[:, None]
    return _Filters(highest, 1.0 / temperature, k_floor, jnp.maximum(k_floor, p_floor), rows.top_p[:, None], nucleus)


class _Attempts(NamedTuple):
    number: jax.Array  # [R] int32, of the row's next attempt
    token: jax.Array  # [R] int32, drawn last
    pivot: jax.Array  # [R, 1] logit of the token rejected last: nothing up to it can be drawn
    mass: jax.Array  # [R, 1] weight of all that top_k left, for rows with top_p
    pending: jax.Array  # [R] bool


def draw_filtered(x: jax.Array, highest: jax.Array, rows: Parameters, keys: jax.Array, active: jax.Array) -> jax.Array:
    """Draw a token for each active row of edited logits [R, V], whose largest are `highest` [R, 1]. Returns [R] int32.

    top_p needs no sorting: a token drawn from the larger set that turns out to lie outside the nucleus is rejected with
    all that are no more likely, and drawn again. What is accepted has exactly the nucleus' distribution, and the first
    attempt holds with probability top_p or more. Without an active row there is no attempt.
    """
    filters = _filters(x, highest, rows, active)
    none = jnp.zeros(x.shape[0], jnp.int32)
    start = _Attempts(none, none, jnp.full_like(highest, -jnp.inf), jnp.zeros_like(highest), active)
    return lax.while_loop(lambda now: jnp.any(now.pending), lambda now: _attempt(x, filters, keys, now), start).token


def _attempt(x: jax.Array, filters: _Filters, keys: jax.Array, was: _Attempts) -> _Attempts:
    parts = split(x, -jnp.inf)
    first, pending = (was.number == 0)[:, None], was.pending[:, None]
    # top_p counts what min_p is to drop later, so its first attempt draws from that too
    floor = jnp.where(first & filters.nucleus, filters.k_floor, filters.floor)

    def drawable(part: jax.Array) -> jax.Array:
        return filters.weights(part, (part >= floor) & (part > was.pivot))

    def leaves(index: jax.Array) -> jax.Array:
        return drawable(jnp.take_along_axis(x, index, axis=1, mode="fill", fill_value=-jnp.inf))

    levels = tree_sums([drawable(part) for part in parts])
    token = descend(levels, leaves, uniforms(keys, was.number, len(levels)))
    logit = jnp.take_along_axis(x, token[:, None], axis=1)
    mass = jnp.where(first, levels[-1], was.mass)
    above = lax.cond(
        jnp.any(pending & filters.nucleus),
        lambda: tree_sums([filters.weights(part, part > logit) for part in parts])[-1],
        lambda: jnp.zeros_like(mass),
    )
    # the most likely token is always inside, whatever the rounding: the loop ends
    inside = ~filters.nucleus | (above < filters.top_p * mass) | (logit >= filters.highest)
    accepted = inside & (logit >= filters.floor)
    return _Attempts(
        number=was.number + 1,
        token=jnp.where(was.pending, token, was.token),
        pivot=jnp.where(pending, logit, was.pivot),
        mass=mass,
        pending=was.pending & ~accepted[:, 0],
    )
