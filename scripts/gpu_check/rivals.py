"""What others make of the same work: jax's dense attention, its deprecated paged kernel, and torch.

Dense attention gets its keys and values gathered beforehand, which costs it nothing here: it is the ceiling of what
paging may cost, not an alternative.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kernels_pallas.paged_attention.mosaic.arg_specs import DecodeSpec, Spec
from scripts.gpu_check.inputs import Inputs, make_inputs
from scripts.gpu_check.setting import Setting
from scripts.gpu_check.speed import expected_s, rate
from scripts.gpu_check.timing import calls, median

MODELS = ("llama-3-8b", "smollm2-135m")
BLOCK_TOKENS = 64
UPSTREAM_SPLITS = 16  # its default; fewer where the table is short
UPSTREAM_PAGES = 8


def items(setting: Setting) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every rival on the specs of two models without window or cap, which not every rival has."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for spec in (spec for model in MODELS for spec in setting.specs if spec.model == model):
        for implementation in ("xla",) if setting.rehearsal else ("cudnn", "xla"):
            found[f"jax-{implementation} {spec.name}"] = partial(dense, spec, implementation, setting)
        if isinstance(spec, DecodeSpec):
            found[f"upstream-paged {spec.name}"] = partial(upstream, spec, setting)
        found[f"torch {spec.name}"] = partial(torch_dense, spec, setting)
    return found


def dense(spec: Spec, implementation: str, setting: Setting) -> dict[str, Any]:
    """jax.nn.dot_product_attention over rows of full length."""
    queries, keys, values, seen = gathered(make_inputs(spec, BLOCK_TOKENS, ragged=False))

    def turn(queries: jax.Array, keys: jax.Array, values: jax.Array, seen: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(
            queries, keys, values, mask=seen, scale=spec.heads.options.scale, implementation=implementation
        )

    taken = setting.seconds(turn, queries, keys, values, seen, expected_s=expected_s(spec))
    return {"seconds": taken, "spec": spec.name} | rate(spec, taken, setting)


def gathered(inputs: Inputs) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Queries [R, Q, H, D], keys and values [R, S, K, D], and which keys each query sees [1, 1, Q, S]."""
    spec = inputs.spec
    queries = inputs.queries[:, None] if isinstance(spec, DecodeSpec) else inputs.queries
    rows, tokens, kv_heads, group, _ = queries.shape
    queries = queries.reshape(rows, tokens, kv_heads * group, -1)[..., : spec.heads.head_dim]

    def dense_part(part: jax.Array) -> jax.Array:
        found = part[:, inputs.table].reshape(kv_heads, rows, -1, part.shape[-1])[:, :, : spec.context]
        return found[..., : spec.heads.head_dim].transpose(1, 2, 0, 3)

    positions = jnp.arange(spec.context - tokens, spec.context)
    seen = jnp.arange(spec.context)[None] <= positions[:, None]
    return queries, dense_part(inputs.pool[0]), dense_part(inputs.pool[1]), seen[None, None]


def upstream(spec: DecodeSpec, setting: Setting) -> dict[str, Any]:
    """jax.experimental.pallas.ops.gpu.paged_attention, whose pages have our layout."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            from jax.experimental.pallas.ops.gpu import paged_attention as upstream_paged
        except ImportError:
            return {"not_available": "this jax has it no more"}

        queries, pool, table, length = make_inputs(spec, BLOCK_TOKENS, ragged=False).arguments
        pages = table.shape[1]
        splits = math.gcd(pages, UPSTREAM_SPLITS)

        def turn(queries: jax.Array, pool: jax.Array, table: jax.Array, length: jax.Array) -> jax.Array:
            scaled = queries * jnp.asarray(spec.heads.options.scale, queries.dtype)
            out = upstream_paged.paged_attention(
                scaled.reshape(spec.rows, -1, queries.shape[-1]),
                pool[0],
                pool[1],
                table,
                length,
                k_splits=splits,
                pages_per_compute_block=math.gcd(pages // splits, UPSTREAM_PAGES),
                interpret=setting.rehearsal,
            )
            return out.reshape(queries.shape).astype(queries.dtype)

        taken = setting.seconds(turn, queries, pool, table, length, expected_s=expected_s(spec))
    return {"seconds": taken, "spec": spec.name} | rate(spec, taken, setting)


def torch_dense(spec: Spec, setting: Setting) -> dict[str, Any]:
    """torch's scaled_dot_product_attention over rows of full length, its own choice of kernel."""
    if importlib.util.find_spec("torch") is None:
        return {"not_available": "torch is not installed"}
    import torch

    device = "cpu" if setting.rehearsal else "cuda"
    heads = spec.heads
    tokens = 1 if isinstance(spec, DecodeSpec) else spec.chunk

    def noise(*shape: int) -> Any:
        return torch.randn(shape, dtype=getattr(torch, spec.dtype), device=device)

    queries = noise(spec.rows, heads.heads, tokens, heads.head_dim)
    keys, values = (noise(spec.rows, heads.kv_heads, spec.context, heads.head_dim) for _ in range(2))
    seen = None
    if 1 < tokens < spec.context:
        positions = torch.arange(spec.context - tokens, spec.context, device=device)
        seen = torch.arange(spec.context, device=device) <= positions[:, None]
    repeats = setting.scaled(calls(expected_s(spec)), 2)

    def run() -> None:
        out = queries
        for _ in range(repeats):
            out = torch.nn.functional.scaled_dot_product_attention(
                out, keys, values, seen, is_causal=tokens == spec.context, enable_gqa=True
            )

    def finish(_: None) -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    taken = median(run, finish) / repeats
    return {"seconds": taken, "spec": spec.name, "torch": torch.__version__} | rate(spec, taken, setting)
