"""The compiled programs: one step of a model for a shape, log-probabilities of a prompt's tokens, copies of pages.

The decoder is taken apart into flat leaves, since calling jax.jit with a module costs milliseconds at 30 layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from andes_jax.model.decoder import Decoder
from andes_jax.model.sampling import Scores, draw, score
from andes_jax.model.sampling_state import SamplingState
from andes_jax.runtime.pack import COUNT, FED, FIRST, GENERATED, HEADER, SAMPLE, SLOT


class Computed(NamedTuple):
    """What a forward pass returns, all on the device."""

    pools: list[jax.Array]
    logits: jax.Array  # [R, vocab] float32, at each row's last token
    hidden: jax.Array  # [R * Q, hidden] float32, for prompt log-probabilities


class Picked(NamedTuple):
    """What a draw returns, all on the device."""

    state: SamplingState
    tokens: jax.Array  # [R, 2] int32: the drawn token, and 1 where the row's logits were finite
    scores: Scores  # of the drawn tokens, where the slot wants them


class Programs:
    """Jitted functions over one decoder's weights.

    Drawing is a program of its own: it depends on the row count alone, so that shapes with the same one share it.
    """

    def __init__(self, decoder: Decoder, table_width: int) -> None:
        rebuild, leaves = taken_apart(decoder)
        self.device = jax.devices()[0]
        # Committed to the device, as pools and state are: jax.jit compiles anew for the same shapes placed another way,
        # and some checkpoints give committed arrays and some do not.
        self.leaves = jax.device_put(leaves, self.device)

        self.compute = compute_program(rebuild, table_width)
        # donated: the state is updated in place, and the arrays passed in are gone afterwards
        self.pick: Callable[..., Picked] = jax.jit(_pick, donate_argnums=(1,))
        self.score: Callable[..., Scores] = jax.jit(partial(_score, rebuild))


def taken_apart(decoder: Decoder) -> tuple[Callable[[list[jax.Array]], Decoder], list[jax.Array]]:
    """A decoder's weights, or their shapes where it is abstract, and what makes a decoder of such weights again."""
    graph, weights = nnx.split(decoder)
    leaves, treedef = jax.tree.flatten(weights)

    def rebuild(leaves: list[jax.Array]) -> Decoder:
        return nnx.merge(graph, jax.tree.unflatten(treedef, leaves))

    return rebuild, leaves


def compute_program(rebuild: Callable[[list[jax.Array]], Decoder], table_width: int) -> jax.stages.Wrapped:
    """One step's forward pass, jitted: from weights, pools, drawn tokens and packed rows to `Computed`.

    The pools are donated: they are updated in place, and the arrays passed in are gone afterwards.
    """
    return jax.jit(partial(_compute, rebuild, table_width), donate_argnums=(1,))


def _compute(
    rebuild: Callable[[list[jax.Array]], Decoder],
    table_width: int,
    leaves: list[jax.Array],
    pools: list[jax.Array],
    last_token: jax.Array,  # [S + 1] int32, of the sampling state
    rows: jax.Array,  # [R, HEADER + Q + table_width] int32
) -> Computed:
    decoder = rebuild(leaves)
    first, count = rows[:, FIRST], rows[:, COUNT]
    tokens, table = rows[:, HEADER : rows.shape[1] - table_width], rows[:, rows.shape[1] - table_width :]
    tokens = jnp.where((rows[:, FED] > 0)[:, None], last_token[rows[:, SLOT]][:, None], tokens)
    hidden, pools = decoder(tokens, pools, table, first, count)
    last = jnp.maximum(count - 1, 0)[:, None, None]
    logits = decoder.logits(jnp.take_along_axis(hidden, last, axis=1)[:, 0])
    return Computed(pools, logits, hidden.reshape(-1, hidden.shape[-1]))


def _pick(logits: jax.Array, state: SamplingState, header: jax.Array) -> Picked:
    """Draw for the rows whose packed header [R, HEADER] int32 says so."""
    drawn = draw(logits, state, header[:, SLOT], header[:, GENERATED], header[:, SAMPLE] > 0)
    return Picked(drawn.state, jnp.stack([drawn.token_ids, drawn.finite.astype(jnp.int32)], axis=1), drawn.scores)


def _score(
    rebuild: Callable[[list[jax.Array]], Decoder], leaves: list[jax.Array], hidden: jax.Array, token_ids: jax.Array
) -> Scores:
    """Log-probabilities of token_ids [N] int32 after hidden states [N, hidden] float32."""
    return score(rebuild(leaves).logits(hidden), token_ids)


def _gather_pages(axis: int, pools: Sequence[jax.Array], pages: jax.Array) -> list[jax.Array]:
    """Copies of these pages [N] int32 of every layer's pool, side by side along the pools' page axis."""
    return [jnp.take(pool, pages, axis=axis, mode="clip") for pool in pools]


def _scatter_pages(
    axis: int, pools: Sequence[jax.Array], pages: jax.Array, contents: Sequence[jax.Array]
) -> tuple[list[jax.Array], jax.Array]:
    """The pools with contents, as of a gather, put at these pages [N] int32; and the pages, to wait for.

    A loop over pages: XLA's CPU backend takes 2 to 6 times as long for a scatter, which copies the contents once more.
    """

    def put(index: jax.Array, pools: list[jax.Array]) -> list[jax.Array]:
        page = pages[index]
        return [
            lax.dynamic_update_slice_in_dim(pool, lax.dynamic_slice_in_dim(content, index, 1, axis), page, axis)
            for pool, content in zip(pools, contents, strict=True)
        ]

    return lax.fori_loop(0, pages.shape[0], put, list(pools)), pages + 0


gather_pages = jax.jit(_gather_pages, static_argnums=0)
scatter_pages = jax.jit(_scatter_pages, static_argnums=0, donate_argnums=1)  # the pools are updated in place
