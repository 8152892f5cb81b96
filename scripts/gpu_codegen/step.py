"""A whole decode step of a model of Llama 3 8B's shape, without its weights: what is lowered and compiled for GPUs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from andes_jax.model.attention import pool_shape
from andes_jax.model.decoder import abstract_decoder
from andes_jax.model.rope import Rope
from andes_jax.model.spec import ModelSpec
from andes_jax.runtime.pack import HEADER
from andes_jax.runtime.programs import compute_program, taken_apart

# Sequences of 8192 tokens at most, and pools that fit the smallest GPU beside the weights.
ROWS, PAGES, PAGE_TOKENS, TABLE_WIDTH = 32, 1024, 16, 512
DTYPE = jnp.dtype("bfloat16")
NAME = f"step-llama-3-8b-{ROWS}x{TABLE_WIDTH * PAGE_TOKENS}-page{PAGE_TOKENS}"


def llama_3_8b(layers: int = 32) -> ModelSpec:
    """The shape of Llama 3 8B, from its published configuration."""
    return ModelSpec(
        family="llama",
        layers=layers,
        hidden=4096,
        intermediate=14336,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        max_position=8192,
        norm_eps=1e-5,
        rope=Rope.plain(128, 500000.0),
        attention_scale=128**-0.5,
    )


def decode_step(spec: ModelSpec) -> tuple[jax.stages.Wrapped, tuple[Any, ...]]:
    """The runner's program for a step of ROWS decodes with Mosaic attention, and the shapes of its arguments.

    The second argument is the donated list of pools.
    """
    rebuild, leaves = taken_apart(abstract_decoder(spec, DTYPE, "mosaic"))
    shape = pool_shape("mosaic", spec, PAGES, PAGE_TOKENS)
    pools = [jax.ShapeDtypeStruct(shape, DTYPE) for _ in range(spec.layers)]
    last_token = jax.ShapeDtypeStruct((ROWS + 1,), jnp.int32)
    rows = jax.ShapeDtypeStruct((ROWS, HEADER + 1 + TABLE_WIDTH), jnp.int32)
    return compute_program(rebuild, TABLE_WIDTH), (leaves, pools, last_token, rows)
