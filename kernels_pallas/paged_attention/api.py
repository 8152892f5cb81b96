"""The interface of paged attention: shapes checked, errors named, the implementation chosen by name.

Shapes use R rows (sequences), Q new tokens per row, H query heads, K key/value heads, D head size, N pages per row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp

from kernels_pallas.native_library import NativeUnavailable
from kernels_pallas.paged_attention import native, reference, xla
from kernels_pallas.paged_attention.options import AttentionOptions

__all__ = [
    "IMPLEMENTATIONS",
    "AttentionOptions",
    "NativeUnavailable",
    "attend",
    "check",
    "pool_shape",
    "prepare",
    "write",
]


class Implementation(Protocol):
    """The operations in one way; arguments are those of the functions below."""

    def pool_shape(self, pages: int, page_tokens: int, kv_heads: int, head_dim: int, /) -> tuple[int, ...]: ...

    def write(
        self,
        pool: jax.Array,
        keys: jax.Array,
        values: jax.Array,
        table: jax.Array,
        first: jax.Array,
        count: jax.Array,
        /,
    ) -> jax.Array: ...

    def attend(
        self,
        queries: jax.Array,
        pool: jax.Array,
        table: jax.Array,
        first: jax.Array,
        count: jax.Array,
        options: AttentionOptions,
        sinks: jax.Array | None,
        /,
    ) -> jax.Array: ...


def _mosaic() -> Implementation:
    # imported where it is asked for: Pallas for GPUs takes longer to import than all else here, and CPUs do without
    from kernels_pallas.paged_attention.mosaic.attention import MosaicAttention

    return MosaicAttention()


IMPLEMENTATIONS: dict[str, Callable[[], Implementation]] = {
    "reference": lambda: reference,
    "xla": lambda: xla,
    "native": lambda: native,
    "mosaic": _mosaic,
}


def implementation_named(name: str) -> Implementation:
    """What implements the operations. Raises ValueError for a name that does not exist."""
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"no paged attention named {name!r}; there are {', '.join(sorted(IMPLEMENTATIONS))}")
    return IMPLEMENTATIONS[name]()


def prepare(name: str, folder: Path) -> None:
    """Do what an implementation needs before its first use in a process; what it compiles is kept in `folder`.

    Raises NativeUnavailable where it cannot be had on this machine.
    """
    if name == "native":
        native.prepare(folder)


def check(name: str, *, page_tokens: int, heads: int, kv_heads: int, head_dim: int, dtype: jnp.dtype) -> None:
    """Raises ValueError where an implementation has no way for a pool of such sizes and numbers on JAX's device."""
    reference.check_heads(heads, kv_heads, head_dim)
    if name == "mosaic":
        from kernels_pallas.paged_attention.mosaic.attention import MosaicAttention

        MosaicAttention().check(page_tokens, heads, kv_heads, head_dim, dtype)


def pool_shape(name: str, *, pages: int, page_tokens: int, kv_heads: int, head_dim: int) -> tuple[int, ...]:
    """Shape of one layer's pool in the layout that the implementation reads."""
    return implementation_named(name).pool_shape(pages, page_tokens, kv_heads, head_dim)


def write(
    name: str,
    pool: jax.Array,
    keys: jax.Array,  # [R, Q, K, D]
    values: jax.Array,  # [R, Q, K, D]
    table: jax.Array,  # [R, N] int32
    first: jax.Array,  # [R] int32
    count: jax.Array,  # [R] int32
) -> jax.Array:
    """Put each row's first `count` keys and values at positions first, first + 1, ... of its pages.

    The rest, and what would be past the table's last page, change no page but perhaps page 0, which nobody reads. What
    is not finite in the pool's type becomes 0. Returns the pool, updated in place where it is donated. Raises
    ValueError for shapes and types that do not fit.
    """
    implementation = implementation_named(name)
    if keys.shape != values.shape:
        raise ValueError(f"keys {keys.shape} and values {values.shape} differ")
    _check_rows(keys, table, first, count)
    _check_pool(implementation, pool, *keys.shape[2:])
    return implementation.write(pool, keys, values, table, first, count)


def attend(
    name: str,
    queries: jax.Array,  # [R, Q, H, D] float32, rotated
    pool: jax.Array,
    table: jax.Array,  # [R, N] int32
    first: jax.Array,  # [R] int32
    count: jax.Array,  # [R] int32
    options: AttentionOptions,
    sinks: jax.Array | None = None,  # [H] float32
) -> jax.Array:
    """Causal attention of each row's new tokens over its pages, the new tokens' own keys included.

    `sinks` are logits of one more key per head that every query sees and that has no value, as in GPT-OSS; their
    weights are lost. Returns [R, Q, H, D] float32; entries at and past `count`, or past the table's last page, are
    finite and mean nothing. Raises ValueError for shapes and types that do not fit, and for sinks where an
    implementation has none.
    """
    implementation = implementation_named(name)
    _check_rows(queries, table, first, count)
    heads, head_dim = queries.shape[2:]
    _check_pool(implementation, pool, None, head_dim)
    reference.check_heads(heads, pool.shape[1], head_dim)
    if sinks is not None and sinks.shape != (heads,):
        raise ValueError(f"{heads} query heads, but sinks {sinks.shape}")
    room = table.shape[1] * pool.shape[3] - first  # kernels read the table as far as count says
    count = jnp.minimum(count, room)
    return implementation.attend(queries, pool, table, first, count, options, sinks)


def _check_rows(heads: jax.Array, table: jax.Array, first: jax.Array, count: jax.Array) -> None:
    if heads.ndim != 4 or 0 in heads.shape:
        raise ValueError(f"expected [rows, tokens, heads, head size] with one of each at least, got {heads.shape}")
    rows = heads.shape[0]
    if table.ndim != 2 or table.shape[0] != rows or first.shape != (rows,) or count.shape != (rows,):
        raise ValueError(f"{rows} rows, but table {table.shape}, first {first.shape}, count {count.shape}")
    if table.shape[1] == 0:
        raise ValueError(f"a table of no pages, {table.shape}")
    if {table.dtype.name, first.dtype.name, count.dtype.name} != {"int32"}:
        raise ValueError(f"table of {table.dtype}, first of {first.dtype}, count of {count.dtype}; all are int32")


def _check_pool(implementation: Implementation, pool: jax.Array, kv_heads: int | None, head_dim: int) -> None:
    """Raises ValueError for a pool that is not the implementation's for such heads; None: for any number of them."""
    if pool.ndim != 5:
        raise ValueError(f"expected [2, key/value heads, pages, page tokens, head size], got a pool {pool.shape}")
    kv_heads = pool.shape[1] if kv_heads is None else kv_heads
    pages, page_tokens = pool.shape[2:4]
    expected = implementation.pool_shape(pages, page_tokens, kv_heads, head_dim)
    if pool.shape != expected or 0 in expected:
        raise ValueError(f"{kv_heads} key/value heads of {head_dim} are kept in a pool {expected}, not {pool.shape}")
    if not jnp.issubdtype(pool.dtype, jnp.floating):
        raise ValueError(f"a pool of {pool.dtype}; keys and values are floating-point numbers")
