"""Changes to logits before a draw, by each row's parameters: logit_bias, then penalties, then the ban of stop ids."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from andes_jax.model.sampling_state import Parameters, SamplingState


def _banning(rows: Parameters, generated: jax.Array) -> jax.Array:
    return (generated < rows.min_tokens) & (rows.banned > 0)


def is_edited(rows: Parameters, generated: jax.Array) -> jax.Array:
    """[R] bool: edit changes the row. `generated` [R] int32 is how many output tokens it has."""
    return (rows.biased > 0) | rows.penalised | _banning(rows, generated)


def edit(logits: jax.Array, rows: Parameters, state: SamplingState, generated: jax.Array) -> jax.Array:
    """Logits [R, V] float32 after bias, penalties and bans; -inf stays -inf, nothing finite becomes infinite but bans.

    Penalties as vLLM and Hugging Face have them: repetition divides a positive logit and multiplies a negative one of
    every token in prompt or output; frequency times the count and presence once are taken off for output tokens.
    """
    x = lax.cond(jnp.any(rows.biased > 0), _bias, lambda x, _: x, logits, rows)
    x = lax.cond(jnp.any(rows.penalised), _penalise, lambda x, *_: x, x, rows, state.output_counts, state.prompt_seen)
    banning = _banning(rows, generated)
    return lax.cond(jnp.any(banning), _ban, lambda x, *_: x, x, rows, banning)


def _row_index(x: jax.Array) -> jax.Array:
    return lax.broadcasted_iota(jnp.int32, (x.shape[0], 1), 0)


def _bias(x: jax.Array, rows: Parameters) -> jax.Array:
    return x.at[_row_index(x), rows.bias_ids].add(rows.bias_values, mode="drop")


def _penalise(x: jax.Array, rows: Parameters, output_counts: jax.Array, prompt_seen: jax.Array) -> jax.Array:
    counts = output_counts[rows.slot]
    repetition = jnp.where(prompt_seen[rows.slot] | (counts > 0), rows.repetition[:, None], 1.0)
    y = jnp.where(x < 0.0, x * repetition, x / repetition)
    y = y - rows.frequency[:, None] * counts.astype(jnp.float32)
    y = y - jnp.where(counts > 0, rows.presence[:, None], 0.0)
    largest = jnp.finfo(jnp.float32).max
    return jnp.where(rows.penalised[:, None] & (x > -jnp.inf), jnp.clip(y, -largest, largest), x)


def _ban(x: jax.Array, rows: Parameters, banning: jax.Array) -> jax.Array:
    ids = jnp.where(banning[:, None], rows.ban_ids, x.shape[1])
    y = x.at[_row_index(x), ids].set(-jnp.inf, mode="drop")
    # a ban that leaves nothing to draw is void
    return jnp.where(jnp.any(y > -jnp.inf, axis=1, keepdims=True), y, x)
