"""Cases for the Mosaic GPU kernels: rows over pages that are scattered, in runs or shared, and what attention gives."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from kernels_pallas.paged_attention import reference
from kernels_pallas.paged_attention.mosaic.common import padded_head_dim
from kernels_pallas.paged_attention.options import AttentionOptions

TOLERANCE = {"bfloat16": 3e-3, "float16": 1e-3}  # of the norm, per row


@dataclass(frozen=True)
class Case:
    """Arrays of D' = padded_head_dim(D) numbers per head, zeros past D; what attention gives has D."""

    queries: jax.Array  # [R, Q, K, G, D'] of the pool's dtype
    pool: jax.Array  # [2, K, P, T, D']
    table: jax.Array  # [R, N] int32, N whole blocks
    first: jax.Array  # [R] int32
    count: jax.Array  # [R] int32
    head_dim: int

    @property
    def length(self) -> jax.Array:
        """Keys that the row's last query sees [R]; 0 for a row without any query."""
        return jnp.where(self.count > 0, self.first + self.count, 0)

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.pool.dtype.name]


def make_case(
    *,
    spans: list[tuple[int, int]],
    seed: int = 0,
    kv_heads: int = 1,
    group: int = 1,
    head_dim: int = 64,
    page_tokens: int = 16,
    block_tokens: int = 64,
    dtype: str = "bfloat16",
    pages: str = "scattered",
    shared_pages: int = 0,
    min_queries: int = 1,
) -> Case:
    """Rows of (first, count) spans: `count` queries after `first` older keys; a pool of noise, page 0 included.

    pages: "scattered" at random, in one "run" per row, or "mixed": every other block a run. The rows' first
    `shared_pages` pages are the same ones.
    """
    rng = np.random.default_rng(seed)
    counts = [-(-(first + count) // page_tokens) for first, count in spans]
    block_pages = block_tokens // page_tokens
    columns = -(-max(1, *counts) // block_pages) * block_pages
    table, pool_pages = _table(rng, counts, columns, block_pages, pages)
    for row, row_pages in enumerate(counts):
        shared = min(shared_pages, row_pages, counts[0])
        table[row, :shared] = table[0, :shared]
    width = padded_head_dim(head_dim)
    tokens = max(min_queries, *(count for _, count in spans))

    def noise(*shape: int) -> jax.Array:
        values = rng.standard_normal((*shape, head_dim))
        return jnp.asarray(np.pad(values, [(0, 0)] * len(shape) + [(0, width - head_dim)]), dtype)

    return Case(
        queries=noise(len(spans), tokens, kv_heads, group),
        pool=noise(2, kv_heads, pool_pages, page_tokens),
        table=jnp.asarray(table),
        first=jnp.asarray([first for first, _ in spans], jnp.int32),
        count=jnp.asarray([count for _, count in spans], jnp.int32),
        head_dim=head_dim,
    )


def _table(
    rng: np.random.Generator, counts: list[int], columns: int, block_pages: int, pages: str
) -> tuple[np.ndarray, int]:
    """Disjoint pages for rows of so many pages [R, columns] int32, and the pool's number of pages."""
    table = np.zeros((len(counts), columns), np.int32)
    pool_pages = 2 + len(counts) * columns
    order = rng.permutation(len(counts))  # rows' runs lie in the pool in another order than in the table
    for row, row_pages in enumerate(counts):
        table[row, :row_pages] = 1 + order[row] * columns + np.arange(row_pages)
    if pages == "run":
        return table, pool_pages
    renamed = 1 + rng.permutation(pool_pages - 1).astype(np.int32)
    scattered = np.where(table > 0, renamed[table - 1], 0)
    if pages == "scattered":
        return scattered, pool_pages
    # a scattered page is named past the runs' pages, so that the two never meet
    odd = (np.arange(columns) // block_pages) % 2 == 1
    return np.where(odd & (table > 0), scattered + pool_pages - 1, table).astype(np.int32), 2 * pool_pages


def expected(case: Case, options: AttentionOptions) -> np.ndarray:
    """What the specification gives in float32 [R, Q, K, G, D]."""
    rows, tokens, kv_heads, group, _ = case.queries.shape
    queries = case.queries[..., : case.head_dim].astype(jnp.float32).reshape(rows, tokens, kv_heads * group, -1)
    pool = case.pool[..., : case.head_dim].astype(jnp.float32)
    out = reference.attend(queries, pool, case.table, case.first, case.count, options)
    return np.asarray(out).reshape(rows, tokens, kv_heads, group, case.head_dim)


def expected_lse(case: Case, options: AttentionOptions) -> np.ndarray:
    """log2 of the sum of exp of each query's scores [R, Q, K, G], in float64."""
    rows, tokens = case.queries.shape[:2]
    kv_heads = case.pool.shape[1]
    queries = np.asarray(case.queries.astype(jnp.float32), np.float64)
    keys = np.asarray(case.pool[0].astype(jnp.float32), np.float64)[:, np.asarray(case.table)]
    keys = keys.reshape(kv_heads, rows, -1, queries.shape[-1])
    scores = np.einsum("rqkgd,krsd->rqkgs", queries, keys) * options.scale
    if options.softcap is not None:
        scores = options.softcap * np.tanh(scores / options.softcap)
    query_positions = (np.asarray(case.first)[:, None] + np.arange(tokens))[:, :, None, None, None]
    key_positions = np.arange(keys.shape[2])
    seen = key_positions <= query_positions
    if options.window is not None:
        seen &= key_positions > query_positions - options.window
    with np.errstate(divide="ignore"):
        return np.log2(np.sum(np.where(seen, np.exp(scores), 0.0), axis=-1))


def merge(out: np.ndarray, lse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits [R, K, S, G, D] and [R, K, S, G] into one [R, K, G, D] and [R, K, G]; zeros, -inf without keys."""
    out, lse = np.asarray(out, np.float64), np.asarray(lse, np.float64)
    highest = lse.max(axis=2, keepdims=True)
    weights = np.exp2(lse - np.where(np.isinf(highest), 0.0, highest))
    total = weights.sum(axis=2)
    with np.errstate(divide="ignore"):
        merged_lse = np.where(np.isinf(highest), 0.0, highest)[:, :, 0] + np.log2(total)
    mixed = (out * weights[..., None]).sum(axis=2)
    return mixed / np.where(total > 0, total, 1.0)[..., None], merged_lse


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Norm of the difference over the norm of what was wanted."""
    return float(np.linalg.norm(np.asarray(got, np.float64) - want) / np.linalg.norm(want))


def decode_errors(case: Case, options: AttentionOptions, out: np.ndarray, lse: np.ndarray) -> list[float]:
    """Relative error of each row with keys, for a case of one query per row and a kernel's decode of it.

    Rows without keys must be zeros with lse -inf (AssertionError), and lse must be near (AssertionError).
    """
    merged, merged_lse = merge(np.asarray(out)[..., : case.head_dim], lse)
    want, want_lse = expected(case, options)[:, 0], expected_lse(case, options)[:, 0]
    errors = []
    for row, length in enumerate(np.asarray(case.length)):
        if length == 0:
            assert not merged[row].any() and np.isneginf(merged_lse[row]).all()
            continue
        np.testing.assert_allclose(merged_lse[row], want_lse[row], atol=1e-3)
        errors.append(relative_error(merged[row], want[row]))
    return errors


def prefill_errors(case: Case, options: AttentionOptions, out: np.ndarray, lse: np.ndarray) -> list[float]:
    """Relative error of each row's real queries in a kernel's prefill; AssertionError where `out` is not finite."""
    out, lse = np.asarray(out)[..., : case.head_dim], np.asarray(lse)
    assert np.isfinite(out).all()
    want, want_lse = expected(case, options), expected_lse(case, options)
    errors = []
    for row, count in enumerate(np.asarray(case.count)):
        if count:
            np.testing.assert_allclose(lse[row, :count], want_lse[row, :count], atol=1e-3)
            errors.append(relative_error(out[row, :count], want[row, :count]))
    return errors
