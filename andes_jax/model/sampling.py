"""Drawing tokens on the device: every row by its own parameters, in one program for all of them.

Flags are data. A greedy row costs two passes over its logits. Rows that ask for more are gathered a few at a time and
pay for themselves alone, so that one of them does not make the whole batch slow.
A row's result depends on its own logits, parameters and position, never on the rows beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from andes_jax.model.sampling_edits import edit, is_edited
from andes_jax.model.sampling_filters import draw_filtered, row_keys
from andes_jax.model.sampling_folds import first_index, peak, split, top_values, tree_sums
from andes_jax.model.sampling_state import MAX_TOP_LOGPROBS, Parameters, SamplingState, unpack

LOGPROB_FLOOR = -9999.0  # stands for anything lower, -inf too, as in OpenAI's replies
ROWS_AT_ONCE = 8  # on a CPU: their logits stay in the cache between passes


class Scores(NamedTuple):
    """Natural-log probabilities of the raw logits, before bias, penalties, temperature and filters; all finite."""

    logprob: jax.Array  # [R] float32, of one token per row
    top_ids: jax.Array  # [R, MAX_TOP_LOGPROBS] int32, most likely first
    top_logprobs: jax.Array  # [R, MAX_TOP_LOGPROBS] float32


class Drawn(NamedTuple):
    """What draw returns."""

    token_ids: jax.Array  # [R] int32; 0 where the row did not sample or is not finite
    finite: jax.Array  # [R] bool; False where a sampling row holds NaN or +inf, or nothing but -inf
    scores: Scores  # of token_ids where the row wants logprobs, else zeros
    state: SamplingState


def score(logits: jax.Array, token_ids: jax.Array) -> Scores:
    """Log-probabilities of token_ids [R] int32 under logits [R, V] float32, and the most likely tokens."""
    highest = peak(logits)
    total = tree_sums([jnp.exp(part - highest) for part in split(logits, -jnp.inf)])[-1]
    values, ids = top_values(logits, MAX_TOP_LOGPROBS)
    drawn = jnp.take_along_axis(logits, token_ids[:, None], axis=1)
    logprobs = (jnp.concatenate([drawn, values], axis=1) - highest) - jnp.log(total)
    logprobs = jnp.where(logprobs > LOGPROB_FLOOR, logprobs, LOGPROB_FLOOR)
    return Scores(logprobs[:, 0], ids, logprobs[:, 1:])


def draw(
    logits: jax.Array,
    state: SamplingState,
    slots: jax.Array,
    generated: jax.Array,
    sample: jax.Array,
    *,
    rows_at_once: int = ROWS_AT_ONCE,
) -> Drawn:
    """Draw one token for each row with `sample` set; other rows change nothing. For use inside a jitted step.

    logits [R, V] float32; slots [R] int32, different for sampling rows, padding rows any; generated [R] int32, output
    tokens before this draw; sample [R] bool. `rows_at_once`, static, is how many rows share a pass when they need more
    than argmax: pass R on a GPU, where one wide pass beats several narrow ones.
    """
    packed = state.parameters[slots]
    rows = unpack(packed)
    highest = peak(logits)
    finite = jnp.isfinite(highest[:, 0]) | ~sample
    live = sample & finite
    tokens = jnp.where(live, first_index(logits, highest), 0)
    special = live & ((rows.temperature > 0.0) | is_edited(rows, generated) | (rows.wants_logprobs > 0))
    tokens, scores = _special_rows(
        logits, highest, tokens, slots, packed, state, generated, special, min(rows_at_once, len(slots))
    )
    nowhere = state.last_token.shape[0]
    state = state._replace(
        last_token=state.last_token.at[jnp.where(live, slots, nowhere)].set(tokens, mode="drop"),
        output_counts=state.output_counts.at[jnp.where(live & rows.penalised, slots, nowhere), tokens].add(
            1, mode="drop"
        ),
    )
    return Drawn(tokens, finite, scores, state)


def _special_rows(
    logits: jax.Array,
    highest: jax.Array,
    tokens: jax.Array,
    slots: jax.Array,
    packed: jax.Array,
    state: SamplingState,
    generated: jax.Array,
    special: jax.Array,
    width: int,
) -> tuple[jax.Array, Scores]:
    """Tokens [R] with those of special rows replaced, and the scores of rows that want them; `width` rows at a time."""
    count = logits.shape[0]
    order = jnp.pad(jnp.argsort(~special, stable=True).astype(jnp.int32), (0, width))
    total = jnp.sum(special, dtype=jnp.int32)

    def group(carry: tuple[jax.Array, jax.Array, Scores]) -> tuple[jax.Array, jax.Array, Scores]:
        first, tokens, scores = carry
        chosen = lax.dynamic_slice_in_dim(order, first, width)
        mine = first + jnp.arange(width, dtype=jnp.int32) < total
        raw, some = logits[chosen], unpack(packed[chosen])._replace(slot=slots[chosen])
        drawn = _draw_rows(raw, highest[chosen], tokens[chosen], some, state, generated[chosen], mine)
        wanted = mine & (some.wants_logprobs > 0)
        found = lax.cond(jnp.any(wanted), score, lambda *_: _no_scores(width), raw, drawn)
        target = jnp.where(mine, chosen, count)
        scored = jnp.where(wanted, chosen, count)
        return (
            first + width,
            tokens.at[target].set(drawn, mode="drop"),
            jax.tree.map(lambda all_rows, new: all_rows.at[scored].set(new, mode="drop"), scores, found),
        )

    start = (jnp.int32(0), tokens, _no_scores(count))
    return lax.while_loop(lambda carry: carry[0] < total, group, start)[1:]


def _draw_rows(
    raw: jax.Array,
    highest: jax.Array,
    greedy: jax.Array,
    rows: Parameters,
    state: SamplingState,
    generated: jax.Array,
    mine: jax.Array,
) -> jax.Array:
    def edited(_: None) -> tuple[jax.Array, jax.Array, jax.Array]:
        x = edit(raw, rows, state, generated)
        top = peak(x)
        return x, top, first_index(x, top)

    changed = jnp.any(mine & is_edited(rows, generated))
    x, highest, greedy = lax.cond(changed, edited, lambda _: (raw, highest, greedy), None)
    random = mine & (rows.temperature > 0.0)
    return jnp.where(random, draw_filtered(x, highest, rows, row_keys(rows, generated), random), greedy)


def _no_scores(rows: int) -> Scores:
    shape = (rows, MAX_TOP_LOGPROBS)
    return Scores(jnp.zeros(rows, jnp.float32), jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32))
