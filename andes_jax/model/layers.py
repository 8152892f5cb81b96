"""The pieces of a decoder layer. Activations are float32 between products; products run in the weights' dtype."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from andes_jax.model.rope import Rope
from andes_jax.model.spec import Activation, ModelSpec


class Linear(nnx.Module):
    """y = x W^T + b with W stored [out, in], as checkpoints hold it and as CPUs read it fastest."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = False, dtype: jnp.dtype) -> None:
        self.weight = nnx.Param(jnp.zeros((outputs, inputs), dtype))
        self.bias = nnx.Param(jnp.zeros((outputs,), jnp.float32)) if bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., inputs] float32 -> [..., outputs] float32."""
        y = project(x, self.weight[...])
        if self.bias is None:
            return y
        return y + jnp.broadcast_to(self.bias[...], y.shape)


def project(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x [..., in] float32 times weight [out, in] in the weight's dtype, accumulated in float32."""
    contract = (((x.ndim - 1,), (1,)), ((), ()))
    precision = lax.Precision.HIGHEST if weight.dtype == jnp.float32 else lax.Precision.DEFAULT
    return lax.dot_general(
        x.astype(weight.dtype), weight, contract, precision=precision, preferred_element_type=jnp.float32
    )


class RmsNorm(nnx.Module):
    """Root-mean-square norm (Zhang and Sennrich 2019); the weight is the multiplier itself in every family."""

    def __init__(self, size: int, epsilon: float) -> None:
        self.weight = nnx.Param(jnp.ones((size,), jnp.float32))
        self.epsilon = epsilon

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., size] float32 -> the same shape."""
        scale = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.epsilon)
        return x * scale * jnp.broadcast_to(self.weight[...], x.shape)


class Mlp(nnx.Module):
    """Gated feed-forward: down(activation(gate(x)) * up(x))."""

    def __init__(self, spec: ModelSpec, dtype: jnp.dtype) -> None:
        self.gate_proj = Linear(spec.hidden, spec.intermediate, dtype=dtype)
        self.up_proj = Linear(spec.hidden, spec.intermediate, dtype=dtype)
        self.down_proj = Linear(spec.intermediate, spec.hidden, dtype=dtype)
        self.activation = activation_named(spec.activation)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


def activation_named(name: Activation) -> Callable[[jax.Array], jax.Array]:
    """The function a spec names."""
    return {"silu": jax.nn.silu, "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True)}[name]


def rotation(rope: Rope, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine of every pair's angle: positions [R, Q] int32 -> two arrays [R, Q, 1, head_dim / 2] float32."""
    frequencies = jnp.asarray(rope.inverse_frequencies, jnp.float32)
    angles = positions.astype(jnp.float32)[:, :, None, None] * frequencies[None, None, None, :]
    return jnp.cos(angles) * rope.attention_factor, jnp.sin(angles) * rope.attention_factor


def rotate(x: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    """Turn dimension i together with i + head_dim / 2 of x [R, Q, heads, head_dim] (Su et al. 2021, half-split)."""
    low, high = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)
