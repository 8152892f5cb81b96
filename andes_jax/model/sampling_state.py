"""What drawing remembers between steps: one row per slot, kept on the device and donated through every step.

A row's parameters cross to the device as one packed int32 row, whose layout `ROW` describes for both sides, so that
admitting several sequences costs one small transfer. Padding rows of a step use the spare row `max_sequences`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from andes_jax.request import SamplingParams

MAX_BIASED = 300  # token ids a request may bias
MAX_BANNED = 32  # stop ids a request with min_tokens may have
MAX_TOP_LOGPROBS = 20
LOAD_ROWS = 8  # rows written by one call of load_rows
COUNT_IDS = 512  # token ids counted by one call of count_ids
GREEDY_BELOW = 1e-5  # a lower temperature means greedy: below it differences of float32 logits are rounding

ROW = np.dtype(
    [
        ("slot", np.int32),
        ("temperature", np.float32),  # 0 is greedy
        ("top_k", np.int32),  # 0 keeps all
        ("top_p", np.float32),
        ("min_p", np.float32),
        ("presence", np.float32),
        ("frequency", np.float32),
        ("repetition", np.float32),
        ("seed", np.uint32, (2,)),  # high word, low word
        ("choice", np.uint32),
        ("min_tokens", np.int32),
        ("wants_logprobs", np.int32),  # 0 or 1
        ("biased", np.int32),  # how many of bias_ids are real
        ("banned", np.int32),  # how many of ban_ids are real
        ("bias_ids", np.int32, (MAX_BIASED,)),  # the vocabulary size where unused
        ("bias_values", np.float32, (MAX_BIASED,)),
        ("ban_ids", np.int32, (MAX_BANNED,)),  # the vocabulary size where unused
    ]
)


class Parameters(NamedTuple):
    """The fields of ROW as arrays [R] or [R, n], in the dtypes given there."""

    slot: jax.Array
    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    min_p: jax.Array
    presence: jax.Array
    frequency: jax.Array
    repetition: jax.Array
    seed: jax.Array
    choice: jax.Array
    min_tokens: jax.Array
    wants_logprobs: jax.Array
    biased: jax.Array
    banned: jax.Array
    bias_ids: jax.Array
    bias_values: jax.Array
    ban_ids: jax.Array

    @property
    def penalised(self) -> jax.Array:
        """[R] bool: drawing needs counts of earlier tokens."""
        return (self.presence != 0.0) | (self.frequency != 0.0) | (self.repetition != 1.0)


class SamplingState(NamedTuple):
    """Rows 0 .. max_sequences-1 belong to slots; the last row is for padding and never means anything."""

    last_token: jax.Array  # [S+1] int32, drawn last; what a decode slice without ids computes
    parameters: jax.Array  # [S+1, ROW words] int32, packed rows
    output_counts: jax.Array  # [S+1, vocab] int32; kept for penalised rows alone
    prompt_seen: jax.Array  # [S+1, vocab] bool; kept for penalised rows alone

    @property
    def vocab(self) -> int:
        return self.output_counts.shape[1]


def make_state(max_sequences: int, vocab: int) -> SamplingState:
    """A state whose rows are all greedy and unfiltered. Takes 5 * vocab bytes per row."""
    rows = max_sequences + 1
    row = np.zeros(1, ROW)
    row["top_p"] = row["repetition"] = 1.0
    row["bias_ids"] = row["ban_ids"] = vocab
    return SamplingState(
        last_token=jnp.zeros(rows, jnp.int32),
        parameters=jnp.asarray(np.repeat(_words(row), rows, axis=0)),
        output_counts=jnp.zeros((rows, vocab), jnp.int32),
        prompt_seen=jnp.zeros((rows, vocab), jnp.bool_),
    )


def unpack(words: jax.Array) -> Parameters:
    """Packed rows [R, ROW words] int32 as named arrays."""
    fields = {}
    assert ROW.fields is not None
    for name, (dtype, offset, *_) in ROW.fields.items():
        first, count = offset // 4, dtype.itemsize // 4
        part = lax.bitcast_convert_type(words[:, first : first + count], jnp.dtype(dtype.base))
        fields[name] = part if dtype.shape else part[:, 0]
    return Parameters(**fields)


def pack_rows(rows: Sequence[tuple[int, SamplingParams]], max_sequences: int, vocab: int) -> Iterator[np.ndarray]:
    """(slot, parameters) pairs as batches [LOAD_ROWS, ROW words] int32 for load_rows.

    Raises ValueError where a row has more biased or banned ids than fit, or one outside the vocabulary.
    """
    for first in range(0, len(rows), LOAD_ROWS):
        packed = np.zeros(LOAD_ROWS, ROW)
        packed["slot"] = max_sequences + 1  # past the last row: dropped
        packed["bias_ids"] = packed["ban_ids"] = vocab
        for row, (slot, params) in zip(packed, rows[first : first + LOAD_ROWS], strict=False):
            _fill(row, slot, params, vocab)
        yield _words(packed)


def _fill(row: np.void, slot: int, params: SamplingParams, vocab: int) -> None:
    row["slot"] = slot
    row["temperature"] = params.temperature if params.temperature >= GREEDY_BELOW else 0.0
    row["top_k"] = params.top_k if 0 < params.top_k < vocab else 0
    row["top_p"] = params.top_p
    row["min_p"] = params.min_p
    row["presence"] = params.presence_penalty
    row["frequency"] = params.frequency_penalty
    row["repetition"] = params.repetition_penalty
    row["seed"] = params.seed >> 32 & 0xFFFFFFFF, params.seed & 0xFFFFFFFF
    row["choice"] = params.choice
    row["min_tokens"] = params.min_tokens
    row["wants_logprobs"] = params.top_logprobs is not None
    if params.logit_bias:
        ids, values = zip(*params.logit_bias, strict=True)
        row["biased"] = _place(row["bias_ids"], ids, vocab, "logit_bias")
        row["bias_values"][: len(values)] = values
    if params.min_tokens and params.stop_ids:
        row["banned"] = _place(row["ban_ids"], params.stop_ids, vocab, "stop_ids")


def _place(where: np.ndarray, ids: Sequence[int], vocab: int, name: str) -> int:
    if len(ids) > len(where):
        raise ValueError(f"{name} holds {len(ids)} ids, at most {len(where)} fit")
    if not all(0 <= token < vocab for token in ids):
        raise ValueError(f"{name} holds an id outside the vocabulary of {vocab}")
    where[: len(ids)] = ids
    return len(ids)


def _words(rows: np.ndarray) -> np.ndarray:
    return rows.view(np.int32).reshape(len(rows), -1)


@partial(jax.jit, donate_argnums=0)
def load_rows(state: SamplingState, packed: jax.Array) -> SamplingState:
    """Write the rows that pack_rows packed and forget what their slots had counted. Donates `state`."""
    slots = unpack(packed).slot
    return state._replace(
        parameters=state.parameters.at[slots].set(packed, mode="drop"),
        output_counts=state.output_counts.at[slots].set(0, mode="drop"),
        prompt_seen=state.prompt_seen.at[slots].set(False, mode="drop"),
    )


def pack_ids(slot: int, token_ids: Sequence[int], *, output: bool, vocab: int) -> Iterator[np.ndarray]:
    """A penalised row's earlier tokens as batches [2 + COUNT_IDS] int32 for count_ids: its prompt or its output."""
    for first in range(0, len(token_ids), COUNT_IDS):
        packed = np.full(2 + COUNT_IDS, vocab, np.int32)
        part = token_ids[first : first + COUNT_IDS]
        packed[:2] = slot, output
        packed[2 : 2 + len(part)] = part
        yield packed


@partial(jax.jit, donate_argnums=0)
def count_ids(state: SamplingState, packed: jax.Array) -> SamplingState:
    """Count what pack_ids packed. Donates `state`."""
    slot, output, ids = packed[0], packed[1] != 0, packed[2:]
    return state._replace(
        output_counts=state.output_counts.at[slot, jnp.where(output, ids, state.vocab)].add(1, mode="drop"),
        prompt_seen=state.prompt_seen.at[slot, jnp.where(output, state.vocab, ids)].set(True, mode="drop"),
    )
