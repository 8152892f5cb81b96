"""Self-attention over pages. The only place that knows which implementation computes it."""

from __future__ import annotations

import logging
from pathlib import Path

import jax
import jax.numpy as jnp
from flax import nnx

from andes_jax.model.layers import Linear, RmsNorm, rotate
from andes_jax.model.spec import ModelSpec
from kernels_pallas.paged_attention import api as paged
from kernels_pallas.paged_attention.api import AttentionOptions, NativeUnavailable

__all__ = ["Attention", "NativeUnavailable", "check_pool", "pool_shape", "prepare_implementation"]

logger = logging.getLogger(__name__)


# Implementations that run on one platform only; the others run everywhere.
_PLATFORMS = {"native": "cpu", "mosaic": "cuda"}


def prepare_implementation(wanted: str, platform: str, folder: Path) -> str:
    """The implementation that a setting means on a platform ("cpu", "cuda"), made ready to use.

    "auto" is the fastest that this machine can have; what has to be compiled for it is kept in `folder`.
    Raises NativeUnavailable where the wanted one cannot be had, ValueError where it is for another platform.
    """
    if wanted == "auto":
        return "mosaic" if platform == "cuda" else _fastest_on_cpus(folder)
    only = _PLATFORMS.get(wanted, platform)
    if only != platform:
        raise ValueError(f"{wanted} attention runs on {only} and not on {platform}; auto takes one that fits")
    paged.prepare(wanted, folder)
    return wanted


def _fastest_on_cpus(folder: Path) -> str:
    try:
        paged.prepare("native", folder)
    except NativeUnavailable as reason:
        logger.warning("attention runs on xla, which is slower: %s", reason)
        return "xla"
    return "native"


def check_pool(implementation: str, spec: ModelSpec, page_tokens: int, dtype: jnp.dtype) -> None:
    """Raises ValueError where an implementation cannot serve a model from such a pool on JAX's device."""
    try:
        paged.check(
            implementation,
            page_tokens=page_tokens,
            heads=spec.heads,
            kv_heads=spec.kv_heads,
            head_dim=spec.head_dim,
            dtype=dtype,
        )
    except ValueError as error:
        raise ValueError(f"{error}; xla attention has no such bounds and is slower") from error


def pool_shape(implementation: str, spec: ModelSpec, pages: int, page_tokens: int) -> tuple[int, ...]:
    """Shape of one layer's page pool, keys and values together."""
    return paged.pool_shape(
        implementation, pages=pages, page_tokens=page_tokens, kv_heads=spec.kv_heads, head_dim=spec.head_dim
    )


class Attention(nnx.Module):
    """Projections, RoPE and attention of one layer."""

    def __init__(self, spec: ModelSpec, layer: int, dtype: jnp.dtype, implementation: str) -> None:
        query_size, key_size = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        self.q_proj = Linear(spec.hidden, query_size, bias=spec.attention_bias, dtype=dtype)
        self.k_proj = Linear(spec.hidden, key_size, bias=spec.attention_bias, dtype=dtype)
        self.v_proj = Linear(spec.hidden, key_size, bias=spec.attention_bias, dtype=dtype)
        self.o_proj = Linear(query_size, spec.hidden, dtype=dtype)
        self.q_norm = RmsNorm(spec.head_dim, spec.norm_eps) if spec.qk_norm else None
        self.k_norm = RmsNorm(spec.head_dim, spec.norm_eps) if spec.qk_norm else None
        self.head_dim = spec.head_dim
        self.implementation = implementation
        self.options = AttentionOptions(spec.attention_scale, spec.window_of(layer), spec.attention_softcap)

    def __call__(
        self,
        x: jax.Array,  # [R, Q, hidden] float32
        turn: tuple[jax.Array, jax.Array],  # cosine and sine of the layer's RoPE at the tokens' positions
        pool: jax.Array,
        table: jax.Array,  # [R, N] int32
        first: jax.Array,  # [R] int32
        count: jax.Array,  # [R] int32
    ) -> tuple[jax.Array, jax.Array]:
        """The attention output [R, Q, hidden] float32 and the pool with the new keys and values in it."""
        queries, keys, values = (self._heads(part(x)) for part in (self.q_proj, self.k_proj, self.v_proj))
        if self.q_norm is not None and self.k_norm is not None:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        queries, keys = rotate(queries, *turn), rotate(keys, *turn)
        pool = paged.write(self.implementation, pool, keys, values, table, first, count)
        mixed = paged.attend(self.implementation, queries, pool, table, first, count, self.options)
        return self.o_proj(mixed.reshape(*x.shape[:2], -1)), pool

    def _heads(self, x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:2], -1, self.head_dim)
