"""The compiled programs of a model: one step for a shape, and log-probabilities of a prompt's own tokens.

The decoder is taken apart into flat leaves, since calling jax.jit with a module costs milliseconds at 30 layers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from andes_jax.model.decoder import Decoder
from andes_jax.model.sampling import Scores, draw, score
from andes_jax.model.sampling_state import SamplingState
from andes_jax.runtime.pack import COUNT, FED, FIRST, GENERATED, HEADER, SAMPLE, SLOT


class StepOutput(NamedTuple):
    """What one program run returns, all on the device."""

    pools: list[jax.Array]
    state: SamplingState
    picked: jax.Array  # [R, 2] int32: the drawn token, and 1 where the row's logits were finite
    scores: Scores  # of the drawn tokens, where the slot wants them
    hidden: jax.Array  # [R * Q, hidden] float32, for prompt log-probabilities


class Programs:
    """Jitted functions over one decoder's weights."""

    def __init__(self, decoder: Decoder, table_width: int) -> None:
        graph, weights = nnx.split(decoder)
        self.leaves, treedef = jax.tree.flatten(weights)

        def rebuild(leaves: list[jax.Array]) -> Decoder:
            return nnx.merge(graph, jax.tree.unflatten(treedef, leaves))

        # donated: pools and sampling state are updated in place, and the arrays passed in are gone afterwards
        self.step: Callable[..., StepOutput] = jax.jit(partial(_step, rebuild, table_width), donate_argnums=(1, 2))
        self.score: Callable[..., Scores] = jax.jit(partial(_score, rebuild))


def _step(
    rebuild: Callable[[list[jax.Array]], Decoder],
    table_width: int,
    leaves: list[jax.Array],
    pools: list[jax.Array],
    state: SamplingState,
    rows: jax.Array,  # [R, HEADER + Q + table_width] int32
) -> StepOutput:
    decoder = rebuild(leaves)
    slots, first, count = rows[:, SLOT], rows[:, FIRST], rows[:, COUNT]
    tokens, table = rows[:, HEADER : rows.shape[1] - table_width], rows[:, rows.shape[1] - table_width :]
    fed = (rows[:, FED] > 0)[:, None]
    tokens = jnp.where(fed, state.last_token[slots][:, None], tokens)
    hidden, pools = decoder(tokens, pools, table, first, count)
    last = jnp.maximum(count - 1, 0)[:, None, None]
    logits = decoder.logits(jnp.take_along_axis(hidden, last, axis=1)[:, 0])
    drawn = draw(logits, state, slots, rows[:, GENERATED], rows[:, SAMPLE] > 0)
    picked = jnp.stack([drawn.token_ids, drawn.finite.astype(jnp.int32)], axis=1)
    return StepOutput(pools, drawn.state, picked, drawn.scores, hidden.reshape(-1, hidden.shape[-1]))


def _score(
    rebuild: Callable[[list[jax.Array]], Decoder], leaves: list[jax.Array], hidden: jax.Array, token_ids: jax.Array
) -> Scores:
    """Log-probabilities of token_ids [N] int32 after hidden states [N, hidden] float32."""
    return score(rebuild(leaves).logits(hidden), token_ids)
