"""From GGUF metadata to a ModelSpec: what llama.cpp's architectures mean in the terms of the decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from andes_jax.model.checkpoints.base import CheckpointError
from andes_jax.model.checkpoints.gguf_file import GgufFile
from andes_jax.model.rope import Rope
from andes_jax.model.spec import Family, ModelSpec

ROPE_FACTORS = "rope_freqs.weight"
# GGUF architecture -> family; Llama 2 and 3, SmolLM2 and Mistral are all "llama".
_FAMILIES: dict[str, Family] = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
}
_GEMMA = ("gemma2", "gemma3")
_WINDOW_PERIOD = {"gemma2": 2, "gemma3": 6}  # the last layer of every period sees everything
# The 27B models divide scores by sqrt(hidden / heads), not sqrt(head_dim); GGUF tells them by their depth alone.
_LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}
_GEMMA3_LOCAL_THETA = 10000.0


def spec_of(file: GgufFile) -> ModelSpec:
    """Describe the model in an opened GGUF. Raises CheckpointError for what is missing or not supported."""
    name = file.metadata.get("general.architecture")
    if name is None:
        raise CheckpointError(f"{file.path}: metadata key general.architecture is missing")
    if name not in _FAMILIES:
        raise CheckpointError(
            f"{file.path}: architecture {name!r} is not supported (supported: {', '.join(_FAMILIES)})"
        )
    if (parts := file.metadata.get("split.count", 1)) not in (0, 1):
        raise CheckpointError(f"{file.path}: one of {parts} parts of a split model; merge them with llama-gguf-split")
    if not file.tensors:
        raise CheckpointError(f"{file.path}: the file holds a vocabulary alone, no tensors")
    try:
        return _spec(file, _Keys(str(file.path), file.metadata, name))
    except ValueError as error:
        raise CheckpointError(f"{file.path}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Keys:
    """Typed access to the metadata of one architecture."""

    file: str
    metadata: Mapping[str, Any]
    architecture: str

    def get(self, key: str) -> Any:
        value = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            return value[0]
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self.file}: metadata key {self.architecture}.{key} is missing")
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise CheckpointError(f"{self.file}: metadata key {self.architecture}.{key} is not one number")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        return int(self.number(key, default))

    def optional(self, key: str) -> float | None:
        """The number, or None where the key is absent or 0."""
        return self.number(key, 0) or None


def _spec(file: GgufFile, keys: _Keys) -> ModelSpec:
    family = _FAMILIES[keys.architecture]
    if keys.count("expert_count", 0):
        raise CheckpointError(f"{file.path}: mixture-of-experts models are not supported")
    layers, hidden, heads = (keys.count(key) for key in ("block_count", "embedding_length", "attention.head_count"))
    if not 0 < layers <= len(file.tensors):
        raise CheckpointError(f"{file.path}: {keys.architecture}.block_count {layers} does not fit the file's tensors")
    head_dim = keys.count("attention.key_length", hidden // max(heads, 1))
    for key in ("attention.value_length", "rope.dimension_count"):
        if (value := keys.count(key, head_dim)) != head_dim:
            raise CheckpointError(f"{file.path}: {keys.architecture}.{key} {value} is not the head size {head_dim}")
    gemma = keys.architecture in _GEMMA
    window = keys.optional("attention.sliding_window")
    return ModelSpec(
        family=family,
        layers=layers,
        hidden=hidden,
        intermediate=keys.count("feed_forward_length"),
        heads=heads,
        kv_heads=keys.count("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab=_vocab(file),
        max_position=_max_position(keys),
        norm_eps=_decimal(keys.number("attention.layer_norm_rms_epsilon")),
        rope=_rope(file, keys, head_dim),
        attention_scale=_score_size(keys, layers, hidden, heads, head_dim) ** -0.5,
        activation="gelu_tanh" if gemma else "silu",
        attention_bias=family == "qwen2" or "blk.0.attn_q.bias" in file.tensors,
        qk_norm=family in ("qwen3", "gemma3"),
        post_norms=gemma,
        embedding_scale=hidden**0.5 if gemma else 1.0,
        tied="output.weight" not in file.tensors,
        local_rope=_local_rope(keys, head_dim) if family == "gemma3" else None,
        sliding_window=int(window) if window else None,
        windowed=_windowed(keys, layers) if window else (),
        attention_softcap=keys.optional("attn_logit_softcapping"),
        logit_softcap=keys.optional("final_logit_softcapping"),
    )


def _decimal(value: float) -> float:
    """The short decimal that a float32 was written for: 1e-06, not 9.999999974752427e-07."""
    return float(str(np.float32(value)))


def _vocab(file: GgufFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise CheckpointError(f"{file.path}: tensor token_embd.weight is missing")
    rows = embedding.shape[0]
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and len(tokens) != rows:
        raise CheckpointError(
            f"{file.path}: the vocabulary has {len(tokens)} tokens, token_embd.weight has {rows} rows"
        )
    return rows


def _max_position(keys: _Keys) -> int:
    length = keys.count("context_length")
    if keys.get("rope.scaling.type") != "yarn":
        return length
    original = keys.count("rope.scaling.original_context_length", length)
    return max(length, int(original * keys.number("rope.scaling.factor", 1.0)))


def _rope(file: GgufFile, keys: _Keys, head_dim: int) -> Rope:
    theta = keys.number("rope.freq_base", 10000.0)
    kind = keys.get("rope.scaling.type") or ("linear" if keys.get("rope.scale_linear") else "none")
    factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1.0))
    if kind not in ("none", "linear", "yarn"):
        raise CheckpointError(f"{file.path}: rope scaling {kind!r} is not supported (supported: none, linear, yarn)")
    if kind == "none":
        factor = 1.0
    if ROPE_FACTORS in file.tensors:
        if kind == "yarn":
            raise CheckpointError(f"{file.path}: {ROPE_FACTORS} together with yarn is not supported")
        factors = file.read(ROPE_FACTORS).reshape(-1) * np.float32(factor)
        return Rope.with_factors(head_dim, theta, factors.tolist())
    if kind != "yarn":
        return Rope.linear(head_dim, theta, factor)
    return _yarn(keys, head_dim, theta, factor)


def _yarn(keys: _Keys, head_dim: int, theta: float, factor: float) -> Rope:
    rope = Rope.yarn(
        head_dim,
        theta,
        factor=factor,
        original_max_position=keys.count("rope.scaling.original_context_length", keys.count("context_length")),
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    # Unlike transformers' attention_factor, llama.cpp's factors come on top of YaRN's own.
    extra = keys.number("rope.scaling.attn_factor", 1.0) * keys.number("rope.scaling.yarn_attn_factor", 1.0)
    return replace(rope, attention_factor=rope.attention_factor * extra)


def _local_rope(keys: _Keys, head_dim: int) -> Rope:
    return Rope.plain(head_dim, keys.number("rope.freq_base_swa", _GEMMA3_LOCAL_THETA))


def _score_size(keys: _Keys, layers: int, hidden: int, heads: int, head_dim: int) -> float:
    """What the square root of divides query . key, Gemma's query_pre_attn_scalar."""
    if layers == _LAYERS_OF_27B.get(keys.architecture):
        return hidden / heads
    return head_dim


def _windowed(keys: _Keys, layers: int) -> tuple[bool, ...]:
    pattern = keys.metadata.get(f"{keys.architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return tuple(bool(each) for each in pattern)
    period = keys.count("attention.sliding_window_pattern", _WINDOW_PERIOD.get(keys.architecture, 0))
    return tuple(not period or (layer + 1) % period != 0 for layer in range(layers))
