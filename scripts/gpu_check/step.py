"""A decode step of a whole Llama-3-8B with random weights, against the least time that moving its bytes takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from andes_jax.model import attention
from andes_jax.model.decoder import abstract_decoder, fill
from andes_jax.model.rope import Rope
from andes_jax.model.spec import ModelSpec, expected_shapes
from scripts.gpu_check.inputs import GENERATOR
from scripts.gpu_check.setting import Setting

PAGE_TOKENS = 16
CONTEXT = 2048  # keys of every row
ROWS = (32, 1, 128)  # in order of worth: each is compiled, which may take a minute
WARM_UP, STEPS = 3, 20
WITHOUT_GRAPHS = "--xla_gpu_enable_command_buffer="  # of XLA_FLAGS: nothing is to be a CUDA graph

LLAMA_3_8B = ModelSpec(
    "llama", 32, 4096, 14336, 32, 8, 128, 128256, 8192, 1e-5, Rope.plain(128, 500_000.0), attention_scale=128**-0.5
)
TINY = ModelSpec("llama", 2, 64, 96, 4, 2, 32, 128, 256, 1e-5, Rope.plain(32, 10_000.0), attention_scale=32**-0.5)


@dataclass(frozen=True, slots=True)
class Load:
    """Rows that each have so many keys already."""

    rows: int
    context: int

    @property
    def row_pages(self) -> int:
        return -(-(self.context + WARM_UP + STEPS * 3) // PAGE_TOKENS)


def items(setting: Setting) -> dict[str, Callable[[], dict[str, Any]]]:
    """The step at several numbers of rows."""
    spec = TINY if setting.rehearsal else LLAMA_3_8B
    context = setting.scaled(CONTEXT, 40)
    return {
        f"{rows} rows of {context}": partial(measure, spec, Load(rows, context), setting)
        for rows in (ROWS[:1] if setting.rehearsal else ROWS)
    }


def measure(spec: ModelSpec, load: Load, setting: Setting) -> dict[str, Any]:
    """Seconds of a step, its tokens going round on the device, and the least time that its bytes take."""
    implementation = "reference" if setting.rehearsal else "mosaic"
    try:
        shape = attention.pool_shape(implementation, spec, 1 + load.rows * load.row_pages, PAGE_TOKENS)
    except ValueError as error:
        return {"not_available": str(error)}
    moved = bytes_moved(spec, load)
    memory = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    if memory is not None and moved > 0.9 * memory:
        return {"not_available": f"{moved / 1e9:.0f} GB of weights and cache, the device has {memory / 1e9:.0f}"}
    decoder = random_decoder(spec, implementation)
    pools = [jnp.zeros(shape, jnp.bfloat16) for _ in range(spec.layers)]
    compiled, state = compiled_step(decoder, pools, load)
    taken = _seconds(compiled, state)
    least = moved / setting.limits["read_bytes_per_s"] if "read_bytes_per_s" in setting.limits else None
    return {
        "seconds": taken,
        "tokens_per_s": load.rows / taken,
        "bytes_moved": moved,
        "least_seconds": least,
        "of_least": least / taken if least is not None else None,
        "graphs": graphs_wanted(),
        "temporary_bytes": compiled.memory_analysis().temp_size_in_bytes,
    }


def graphs_wanted() -> bool:
    """Whether XLA may make CUDA graphs of the step, as it does unless it is told not to."""
    return WITHOUT_GRAPHS not in os.environ.get("XLA_FLAGS", "").split()


def bytes_moved(spec: ModelSpec, load: Load) -> int:
    """Bytes that a step must read: every weight but the embeddings' other rows, and every row's keys and values."""
    weights = spec.parameters - (0 if spec.tied else spec.vocab * spec.hidden)
    cached = 2 * spec.layers * load.rows * load.context * spec.kv_heads * spec.head_dim
    return 2 * (weights + cached)


def random_decoder(spec: ModelSpec, implementation: str) -> Any:
    """A decoder of bfloat16 weights that are made on the device: norms are 1, the rest small and at random."""

    @partial(jax.jit, static_argnums=1)
    def noise(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.normal(key, shape, jnp.bfloat16) * jnp.bfloat16(shape[-1] ** -0.5)

    def tensors() -> Any:
        for index, (name, shape) in enumerate(expected_shapes(spec).items()):
            yield name, jnp.ones(shape) if len(shape) == 1 else noise(jax.random.key(index, impl=GENERATOR), shape)

    return fill(abstract_decoder(spec, jnp.dtype(jnp.bfloat16), implementation), tensors())


def compiled_step(decoder: Any, pools: list[jax.Array], load: Load) -> tuple[Any, tuple[Any, ...]]:
    """The step, compiled with its pools donated, and its first arguments."""
    graph, weights = nnx.split(decoder)
    order = jax.random.permutation(jax.random.key(0), load.rows * load.row_pages)
    table = (1 + order).reshape(load.rows, load.row_pages).astype(jnp.int32)

    @partial(jax.jit, donate_argnums=1)
    def step(weights: Any, pools: Any, tokens: jax.Array, first: jax.Array, table: jax.Array) -> tuple[Any, ...]:
        model = nnx.merge(graph, weights)
        hidden, pools = model(tokens[:, None], pools, table, first, jnp.ones_like(first))
        drawn = jnp.argmax(model.logits(hidden[:, 0]), axis=-1).astype(jnp.int32)
        return pools, drawn, first + 1

    first = jnp.full((load.rows,), load.context, jnp.int32)
    state = (weights, pools, jnp.zeros((load.rows,), jnp.int32), first, table)
    return step.lower(*state).compile(), state


def _seconds(compiled: Any, state: tuple[Any, ...]) -> float:
    """Of one step; the median of three rows of STEPS steps, the host ahead of the device as in serving."""
    weights, pools, tokens, first, table = state
    times = []
    for count in (WARM_UP, STEPS, STEPS, STEPS):
        start = time.perf_counter()
        for _ in range(count):
            pools, tokens, first = compiled(weights, pools, tokens, first, table)
        jax.block_until_ready((pools, first))
        times.append((time.perf_counter() - start) / count)
    return sorted(times[1:])[1]
