"""Shapes that models bring to the kernels, by name: what tests lower, what is compiled for every GPU, what is timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from kernels_pallas.paged_attention.mosaic.common import padded_head_dim
from kernels_pallas.paged_attention.options import AttentionOptions


@dataclass(frozen=True, slots=True)
class Heads:
    """One model's attention layers, from its published configuration."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    softcap: float | None = None

    @property
    def group(self) -> int:
        """Query heads of one key/value head."""
        return self.heads // self.kv_heads

    @property
    def padded_dim(self) -> int:
        """Numbers of a head in the pool."""
        return padded_head_dim(self.head_dim)

    @property
    def options(self) -> AttentionOptions:
        return AttentionOptions(self.head_dim**-0.5, self.window, self.softcap)


MODELS = {
    "smollm2-135m": Heads(9, 3, 64),
    "llama-3-8b": Heads(32, 8, 128),
    "qwen3-8b": Heads(32, 8, 128),
    "mistral-7b": Heads(32, 8, 128, window=4096),
    "gemma-3-4b": Heads(8, 4, 256, window=1024),  # its local layers
    "gemma-2-2b": Heads(8, 4, 256, window=4096, softcap=50.0),  # its local layers
}


@dataclass(frozen=True, slots=True)
class DecodeSpec:
    """One new token for each of `rows` sequences."""

    model: str
    rows: int
    context: int  # keys that a row sees at most
    page_tokens: int
    dtype: str = "bfloat16"

    @property
    def name(self) -> str:
        return f"decode-{self.model}-{self.rows}x{self.context}-page{self.page_tokens}"

    @property
    def heads(self) -> Heads:
        return MODELS[self.model]

    def arguments(self, block_tokens: int) -> tuple[jax.ShapeDtypeStruct, ...]:
        """queries [R, K, G, D'], pool, table [R, N], length [R]: what decode takes."""
        pool, table = _pages(self.heads, self.rows, self.context, self.page_tokens, block_tokens, self.dtype)
        queries = (self.rows, self.heads.kv_heads, self.heads.group, self.heads.padded_dim)
        return jax.ShapeDtypeStruct(queries, self.dtype), pool, table, jax.ShapeDtypeStruct((self.rows,), jnp.int32)


@dataclass(frozen=True, slots=True)
class PrefillSpec:
    """A chunk of new tokens for each of `rows` sequences."""

    model: str
    rows: int
    chunk: int  # new tokens of a row
    context: int  # keys that a row's last token sees at most, the chunk included
    page_tokens: int
    dtype: str = "bfloat16"

    @property
    def name(self) -> str:
        return f"prefill-{self.model}-{self.rows}x{self.chunk}-of-{self.context}-page{self.page_tokens}"

    @property
    def heads(self) -> Heads:
        return MODELS[self.model]

    def arguments(self, block_tokens: int) -> tuple[jax.ShapeDtypeStruct, ...]:
        """queries [R, Q, K, G, D'], pool, table [R, N], first [R], count [R]: what prefill takes."""
        pool, table = _pages(self.heads, self.rows, self.context, self.page_tokens, block_tokens, self.dtype)
        queries = (self.rows, self.chunk, self.heads.kv_heads, self.heads.group, self.heads.padded_dim)
        row = jax.ShapeDtypeStruct((self.rows,), jnp.int32)
        return jax.ShapeDtypeStruct(queries, self.dtype), pool, table, row, row


def _pages(
    heads: Heads, rows: int, context: int, page_tokens: int, block_tokens: int, dtype: str
) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """A pool [2, K, P, T, D'] that holds every row's whole context, and its table padded to whole blocks."""
    width = -(-context // block_tokens) * (block_tokens // page_tokens)
    pool = (2, heads.kv_heads, 1 + rows * width, page_tokens, heads.padded_dim)
    return jax.ShapeDtypeStruct(pool, dtype), jax.ShapeDtypeStruct((rows, width), jnp.int32)


Spec = DecodeSpec | PrefillSpec

# Rows, keys, tokens of a page; longer contexts than any window, so that windows leave blocks out.
_DECODES = ((1, 32768, 16), (16, 8192, 32), (128, 2048, 64))
# Rows, new tokens, keys, tokens of a page.
_PREFILLS = ((1, 512, 8192, 16), (1, 2048, 2048, 32), (4, 128, 1024, 64))

# Numbers of one head's page, beyond which an A10G has no room for two blocks.
_MAX_PAGE_NUMBERS = 32 * 256


def _specs() -> Iterator[Spec]:
    for model, heads in MODELS.items():
        largest = _MAX_PAGE_NUMBERS // heads.padded_dim
        yield from (DecodeSpec(model, *numbers) for numbers in _DECODES if numbers[-1] <= largest)
        yield from (PrefillSpec(model, *numbers) for numbers in _PREFILLS if numbers[-1] <= largest)


SPECS: dict[str, Spec] = {spec.name: spec for spec in _specs()}
