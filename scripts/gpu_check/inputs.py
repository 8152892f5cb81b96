"""Arrays for a spec, made on the device, and what attention over them is in float64."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from kernels_pallas.paged_attention.mosaic.arg_specs import DecodeSpec, PrefillSpec, Spec
from kernels_pallas.paged_attention.options import AttentionOptions

GENERATOR = "rbg"  # of jax.random: the quickest, to compile and to run


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a kernel takes: the spec's shapes, numbers from the normal distribution, zeros past the head size."""

    spec: Spec
    queries: jax.Array  # decode [R, K, G, D'], prefill [R, Q, K, G, D']
    pool: jax.Array  # [2, K, P, T, D']
    table: jax.Array  # [R, N] int32
    first: np.ndarray  # [R] position of a row's first query
    count: np.ndarray  # [R] its queries

    @property
    def arguments(self) -> tuple[jax.Array, ...]:
        """As the kernel takes them."""
        first, count = jnp.asarray(self.first, jnp.int32), jnp.asarray(self.count, jnp.int32)
        if isinstance(self.spec, DecodeSpec):
            return self.queries, self.pool, self.table, jnp.where(count > 0, first + count, 0)
        return self.queries, self.pool, self.table, first, count


def make_inputs(spec: Spec, block_tokens: int, *, ragged: bool, pages: str = "scattered", seed: int = 0) -> Inputs:
    """Rows that are as long as the spec allows or, `ragged`, of all lengths; pages "scattered", in "runs" or "mixed".

    Every entry of the table is a page of its own; "mixed" makes every other block a run.
    """
    queries, pool, table, *_ = spec.arguments(block_tokens)
    rng = np.random.default_rng(seed)
    first, count = _spans(spec, rng if ragged else None)
    made = jax.jit(_noise, static_argnums=(1, 2, 3))
    return Inputs(
        spec,
        made(jax.random.key(seed, impl=GENERATOR), queries.shape, spec.heads.head_dim, spec.dtype),
        made(jax.random.key(seed + 1, impl=GENERATOR), pool.shape, spec.heads.head_dim, spec.dtype),
        jnp.asarray(_table(rng, table.shape, block_tokens // spec.page_tokens, pages)),
        first,
        count,
    )


def _noise(key: jax.Array, shape: tuple[int, ...], head_dim: int, dtype: str) -> jax.Array:
    numbers = jax.random.normal(key, shape, dtype)
    return jnp.where(jnp.arange(shape[-1]) < head_dim, numbers, jnp.zeros((), dtype))


def _spans(spec: Spec, rng: np.random.Generator | None) -> tuple[np.ndarray, np.ndarray]:
    """first and count of every row, at their most without a generator."""
    most = spec.chunk if isinstance(spec, PrefillSpec) else 1
    count = np.full(spec.rows, most, np.int32)
    first = np.full(spec.rows, spec.context - most, np.int32)
    if rng is None:
        return first, count
    if spec.rows == 1:
        return first - min(5, first[0]), count - (3 if most > 3 else 0)
    first = rng.integers(0, first + 1).astype(np.int32)
    count = rng.integers(1, count + 1).astype(np.int32)
    first[0], count[0] = spec.context - most, most
    first[1] = 0
    if spec.rows > 2:
        count[2] = 0
    return first, count


def _table(rng: np.random.Generator, shape: tuple[int, ...], block_pages: int, pages: str) -> np.ndarray:
    runs = 1 + np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    if pages == "runs":
        return runs
    blocks = rng.permutation(runs.reshape(-1, block_pages))
    if pages == "scattered":
        return rng.permutation(runs.reshape(-1)).reshape(shape)
    odd = np.arange(len(blocks)) % 2 == 1
    blocks[odd] = rng.permutation(blocks[odd].reshape(-1)).reshape(-1, block_pages)
    return blocks.reshape(shape)


def exact(inputs: Inputs, row: int, head: int, offsets: np.ndarray) -> np.ndarray:
    """Attention of queries of a row and key/value head, by their offsets in it, in float64 on the host, [Q', G, D'].

    The row must have those queries.
    """
    pages = np.asarray(inputs.table[row])
    keys, values = (np.asarray(part, np.float64).reshape(-1, part.shape[-1]) for part in inputs.pool[:, head, pages])
    chosen = inputs.queries[row, head][None] if inputs.queries.ndim == 4 else inputs.queries[row, offsets, head]
    positions = inputs.first[row] + offsets
    return attention(np.asarray(chosen, np.float64), keys, values, positions, inputs.spec.heads.options)


def attention(
    queries: np.ndarray,  # [Q, G, D] at these positions
    keys: np.ndarray,  # [S, D] at 0, 1, ...
    values: np.ndarray,  # [S, D]
    positions: np.ndarray,  # [Q]
    options: AttentionOptions,
) -> np.ndarray:
    """Softmax attention [Q, G, D] in float64, every key that a query may see and no other."""
    scores = np.einsum("qgd,sd->qgs", queries, keys) * options.scale
    if options.softcap is not None:
        scores = options.softcap * np.tanh(scores / options.softcap)
    key_positions = np.arange(keys.shape[0])
    seen = key_positions <= positions[:, None]
    if options.window is not None:
        seen &= key_positions > positions[:, None] - options.window
    scores = np.where(seen[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("qgs,sd->qgd", weights / weights.sum(axis=-1, keepdims=True), values)
