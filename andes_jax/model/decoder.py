"""One decoder for every supported family, driven by its ModelSpec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from andes_jax.model.attention import Attention
from andes_jax.model.layers import Linear, Mlp, RmsNorm, project, rotation
from andes_jax.model.spec import ModelSpec


class Layer(nnx.Module):
    """Attention and MLP, each on a normed input, added to the residual stream."""

    def __init__(self, spec: ModelSpec, index: int, dtype: jnp.dtype, implementation: str) -> None:
        self.input_layernorm = RmsNorm(spec.hidden, spec.norm_eps)
        self.self_attn = Attention(spec, index, dtype, implementation)
        self.post_attention_layernorm = RmsNorm(spec.hidden, spec.norm_eps)
        self.mlp = Mlp(spec, dtype)
        self.post_norms = spec.post_norms
        if spec.post_norms:
            self.pre_feedforward_layernorm = RmsNorm(spec.hidden, spec.norm_eps)
            self.post_feedforward_layernorm = RmsNorm(spec.hidden, spec.norm_eps)

    def __call__(
        self,
        x: jax.Array,  # [R, Q, hidden] float32
        turn: tuple[jax.Array, jax.Array],
        pool: jax.Array,
        table: jax.Array,
        first: jax.Array,
        count: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """The residual stream and the layer's pool after this layer; the arguments are Attention's."""
        attended, pool = self.self_attn(self.input_layernorm(x), turn, pool, table, first, count)
        if self.post_norms:
            x = x + self.post_attention_layernorm(attended)
            return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x))), pool
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), pool


class Embedding(nnx.Module):
    """Token embeddings [vocab, hidden], which a tied model reads again as its output projection."""

    def __init__(self, spec: ModelSpec, dtype: jnp.dtype) -> None:
        self.weight = nnx.Param(jnp.zeros((spec.vocab, spec.hidden), dtype))


class Decoder(nnx.Module):
    """Tokens in, hidden states and updated pools out. Parameter paths are the checkpoints' canonical tensor names."""

    def __init__(self, spec: ModelSpec, dtype: jnp.dtype, implementation: str) -> None:
        self.spec = spec
        self.embed_tokens = Embedding(spec, dtype)
        self.layers = nnx.List([Layer(spec, index, dtype, implementation) for index in range(spec.layers)])
        self.norm = RmsNorm(spec.hidden, spec.norm_eps)
        self.lm_head = None if spec.tied else Linear(spec.hidden, spec.vocab, dtype=dtype)

    def __call__(
        self,
        tokens: jax.Array,  # [R, Q] int32
        pools: Sequence[jax.Array],  # one per layer
        table: jax.Array,  # [R, N] int32
        first: jax.Array,  # [R] int32
        count: jax.Array,  # [R] int32, at most Q
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Normed hidden states [R, Q, hidden] float32 and the pools with these tokens' keys and values."""
        x = jnp.take(self.embed_tokens.weight[...], tokens, axis=0, mode="clip").astype(jnp.float32)
        x = x * self.spec.embedding_scale
        positions = first[:, None] + jnp.arange(tokens.shape[1], dtype=jnp.int32)[None, :]
        turns = {rope: rotation(rope, positions) for rope in {self.spec.rope, self.spec.local_rope} if rope is not None}
        updated = []
        for index, layer in enumerate(self.layers):
            x, pool = layer(x, turns[self.spec.rope_of(index)], pools[index], table, first, count)
            updated.append(pool)
        return self.norm(x), updated

    def logits(self, hidden: jax.Array) -> jax.Array:
        """[N, hidden] float32 -> [N, vocab] float32."""
        weight = self.embed_tokens.weight[...] if self.lm_head is None else self.lm_head.weight[...]
        logits = _project_two_rows(hidden, weight)
        cap = self.spec.logit_softcap
        return logits if cap is None else cap * jnp.tanh(logits / cap)


def _project_two_rows(x: jax.Array, weight: jax.Array) -> jax.Array:
    """`project`, never with one row of a 16-bit weight: XLA's CPU backend converts the whole weight for that."""
    if x.shape[0] == 1 and weight.dtype != jnp.float32:
        return project(jnp.concatenate([x, x]), weight)[:1]
    return project(x, weight)


def parameter_paths(graph: nnx.State) -> dict[str, tuple]:
    """Canonical tensor name -> path in the module's state."""
    return {".".join(str(part) for part in path): path for path, _ in nnx.to_flat_state(graph)}


def abstract_decoder(spec: ModelSpec, dtype: jnp.dtype, implementation: str) -> Decoder:
    """A decoder whose parameters are shapes alone, to be filled by `fill`."""
    return nnx.eval_shape(lambda: Decoder(spec, dtype, implementation))


def fill(decoder: Decoder, tensors: Iterable[tuple[str, np.ndarray | jax.Array]]) -> Decoder:
    """Give an abstract decoder its weights, one tensor in memory at a time beyond those already placed.

    Raises ValueError naming a tensor that is missing, unknown or of the wrong shape.
    """
    graph, state = nnx.split(decoder)
    flat = dict(nnx.to_flat_state(state))
    paths = parameter_paths(state)
    missing = set(paths)
    for name, tensor in tensors:
        if name not in paths:
            raise ValueError(f"tensor {name} has no place in this model")
        wanted = flat[paths[name]]
        if tuple(tensor.shape) != tuple(wanted.shape):
            raise ValueError(f"tensor {name} has shape {tuple(tensor.shape)}, the model needs {tuple(wanted.shape)}")
        flat[paths[name]] = wanted.replace(jnp.asarray(tensor, dtype=wanted.dtype))
        missing.discard(name)
    if missing:
        raise ValueError(f"tensors missing: {', '.join(sorted(missing)[:5])}{' ...' if len(missing) > 5 else ''}")
    return nnx.merge(graph, nnx.from_flat_state(flat))
