"""Paged attention in C++ through XLA's foreign-function interface, for CPUs: reads pages in place.

XLA's own gather copies every key and value it attends to, which costs most of a decode step; this does not.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from kernels_pallas.native_library import load
from kernels_pallas.paged_attention.options import AttentionOptions
from kernels_pallas.paged_attention.reference import pool_shape, write

__all__ = ["attend", "pool_shape", "prepare", "write"]

_TARGET = "andes_paged_attention"
_loaded: dict[str, object] = {}  # target -> library: registering twice in one process is an error


def prepare(folder: Path) -> None:
    """Compile and register the kernel; needed once a process. Raises NativeUnavailable."""
    if _TARGET in _loaded:
        return
    library = load(Path(__file__).with_suffix(".cc"), folder)
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(library.andes_paged_attention), platform="cpu")
    _loaded[_TARGET] = library


def attend(
    queries: jax.Array,
    pool: jax.Array,
    table: jax.Array,
    first: jax.Array,
    count: jax.Array,
    options: AttentionOptions,
    sinks: jax.Array | None = None,
) -> jax.Array:
    """See `api.attend`. Raises RuntimeError when `prepare` has not succeeded in this process, ValueError for sinks."""
    if sinks is not None:
        raise ValueError("native paged attention has no sinks; xla has")
    if _TARGET not in _loaded:
        raise RuntimeError("native paged attention is not loaded; call prepare first")
    call = jax.ffi.ffi_call(_TARGET, jax.ShapeDtypeStruct(queries.shape, jnp.float32))
    return call(
        queries,
        pool,
        table,
        first,
        count,
        scale=np.float32(options.scale),
        window=np.int64(options.window or 0),
        softcap=np.float32(options.softcap or 0.0),
    )
