"""The interface of paged attention: shapes checked, errors named, the implementation chosen by name.

Shapes use R rows (sequences), Q new tokens per row, H query heads, K key/value heads, D head size, N pages per row.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import jax

from kernels_pallas.native_library import NativeUnavailable
from kernels_pallas.paged_attention import native, reference, xla
from kernels_pallas.paged_attention.options import AttentionOptions

__all__ = ["IMPLEMENTATIONS", "AttentionOptions", "NativeUnavailable", "attend", "pool_shape", "prepare", "write"]

IMPLEMENTATIONS: dict[str, ModuleType] = {"reference": reference, "xla": xla, "native": native}


def implementation_named(name: str) -> ModuleType:
    """The module that implements the operations. Raises ValueError for a name that does not exist."""
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"no paged attention named {name!r}; there are {', '.join(sorted(IMPLEMENTATIONS))}")
    return IMPLEMENTATIONS[name]


def prepare(name: str, folder: Path) -> None:
    """Do what an implementation needs before its first use in a process; what it compiles is kept in `folder`.

    Raises NativeUnavailable where it cannot be had on this machine.
    """
    if name == "native":
        native.prepare(folder)


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
    """Put each row's first `count` keys and values at positions first, first + 1, ...; the rest go to page 0.

    Returns the pool, updated in place where it is donated. Raises ValueError for shapes that do not fit.
    """
    rows, _, _, _ = _check(keys, table, first, count)
    if keys.shape != values.shape:
        raise ValueError(f"keys {keys.shape} and values {values.shape} differ")
    return implementation_named(name).write(pool, keys, values, table, first, count)


def attend(
    name: str,
    queries: jax.Array,  # [R, Q, H, D] float32, rotated
    pool: jax.Array,
    table: jax.Array,  # [R, N] int32
    first: jax.Array,  # [R] int32
    count: jax.Array,  # [R] int32
    options: AttentionOptions,
) -> jax.Array:
    """Causal attention of each row's new tokens over its pages, the new tokens' own keys included.

    Returns [R, Q, H, D] float32; entries at and past `count` are finite and mean nothing. Raises ValueError for shapes
    that do not fit.
    """
    _check(queries, table, first, count)
    return implementation_named(name).attend(queries, pool, table, first, count, options)


def _check(heads: jax.Array, table: jax.Array, first: jax.Array, count: jax.Array) -> tuple[int, ...]:
    if heads.ndim != 4:
        raise ValueError(f"expected [rows, tokens, heads, head size], got {heads.shape}")
    rows = heads.shape[0]
    if table.ndim != 2 or table.shape[0] != rows or first.shape != (rows,) or count.shape != (rows,):
        raise ValueError(f"{rows} rows, but table {table.shape}, first {first.shape}, count {count.shape}")
    return heads.shape
