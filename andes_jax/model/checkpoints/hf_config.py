"""From a Hugging Face config.json to a ModelSpec, in the spelling of transformers 4 and of transformers 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from andes_jax.model.checkpoints.base import CheckpointError
from andes_jax.model.rope import Rope
from andes_jax.model.spec import MAX_LAYERS, Activation, Family, ModelSpec

# model_type -> family
_FAMILIES: dict[str, Family] = {
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "gemma3": "gemma3",  # with a vision tower, which is left out
}
_ROPE_TYPES = ("default", "linear", "llama3", "yarn")
_ACTIVATIONS: dict[str, Activation] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
# transformers leaves values equal to a class's defaults out of a nested text_config.
_GEMMA_DEFAULTS = {
    "head_dim": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-6,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
}
_DEFAULTS: dict[Family, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072},
    "qwen2": {"max_position_embeddings": 32768, "max_window_layers": 28, "sliding_window": 4096},
    "qwen3": {"max_position_embeddings": 32768, "max_window_layers": 28, "sliding_window": 4096, "head_dim": 128},
    "gemma2": _GEMMA_DEFAULTS
    | {"max_position_embeddings": 8192, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": _GEMMA_DEFAULTS
    | {"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26}
    | {"max_position_embeddings": 131072},
}
_COMMON_DEFAULTS: dict[str, Any] = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False}


def spec_from_config(file: str, config: Mapping[str, Any]) -> ModelSpec:
    """Describe the model of a config.json. Raises CheckpointError for what is missing or not supported."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in _FAMILIES:
        raise CheckpointError(f"{file}: model_type {model_type!r} is not supported (supported: {', '.join(_FAMILIES)})")
    nested = config.get("text_config")
    text = {**config, **nested} if isinstance(nested, Mapping) else dict(config)
    if (quantised := text.get("quantization_config")) is not None:
        method = quantised.get("quant_method") if isinstance(quantised, Mapping) else quantised
        raise CheckpointError(f"{file}: quantization_config ({method}) is not supported; use float weights, or a GGUF")
    family = _FAMILIES[model_type]
    try:
        return _spec(_Settings(file, family, text))
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from None
    except (TypeError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(f"{file}: a setting has the wrong type or size: {error}") from None


class _Settings:
    """A config's values over its family's defaults."""

    def __init__(self, file: str, family: Family, values: Mapping[str, Any]) -> None:
        self.file = file
        self.family = family
        self.values = _COMMON_DEFAULTS | _DEFAULTS[family] | dict(values)

    def count(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self.file}: {key} is missing")
        if type(value) is not int:
            raise CheckpointError(f"{self.file}: {key} is {value!r}, not a whole number")
        return value

    def get(self, key: str) -> Any:
        return self.values.get(key)


def _spec(settings: _Settings) -> ModelSpec:
    family = settings.family
    gemma = family in ("gemma2", "gemma3")
    hidden, heads, layers = (settings.count(key) for key in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    if not 0 < layers <= MAX_LAYERS:
        raise CheckpointError(f"{settings.file}: num_hidden_layers is {layers}")
    head_dim = settings.count("head_dim", hidden // heads)
    if settings.get("mlp_bias") or (settings.get("attention_bias") and family != "qwen2"):
        raise CheckpointError(f"{settings.file}: biases of the output and MLP projections are not supported")
    if settings.get("use_bidirectional_attention"):
        raise CheckpointError(f"{settings.file}: use_bidirectional_attention is not supported")
    windowed = _windowed(settings, layers)
    return ModelSpec(
        family=family,
        layers=layers,
        hidden=hidden,
        intermediate=settings.count("intermediate_size"),
        heads=heads,
        kv_heads=settings.count("num_key_value_heads", heads),
        head_dim=head_dim,
        vocab=settings.count("vocab_size"),
        max_position=_max_position(settings),
        norm_eps=float(settings.get("rms_norm_eps")),
        rope=_rope(settings, head_dim, "full_attention"),
        attention_scale=float(settings.get("query_pre_attn_scalar") if gemma else head_dim) ** -0.5,
        activation=_activation(settings, gemma),
        attention_bias=family == "qwen2",
        qk_norm=family in ("qwen3", "gemma3"),
        post_norms=gemma,
        embedding_scale=hidden**0.5 if gemma else 1.0,
        tied=bool(settings.get("tie_word_embeddings")),
        local_rope=_rope(settings, head_dim, "sliding_attention") if family == "gemma3" else None,
        sliding_window=settings.count("sliding_window") if any(windowed) else None,
        windowed=windowed,
        attention_softcap=settings.get("attn_logit_softcapping") if family == "gemma2" else None,
        logit_softcap=settings.get("final_logit_softcapping") if gemma else None,
    )


def _activation(settings: _Settings, gemma: bool) -> Activation:
    name = settings.get("hidden_activation") if gemma else settings.get("hidden_act")
    if name not in _ACTIVATIONS:
        supported = ", ".join(_ACTIVATIONS)
        raise CheckpointError(f"{settings.file}: activation {name!r} is not supported (supported: {supported})")
    return _ACTIVATIONS[name]


def _windowed(settings: _Settings, layers: int) -> tuple[bool, ...]:
    """Which layers the sliding window applies to; empty where it applies to none."""
    family, kinds = settings.family, settings.get("layer_types")
    if settings.get("sliding_window") is None or family == "llama":
        return ()
    if family == "mistral":
        return (True,) * layers
    if family in ("qwen2", "qwen3") and not settings.get("use_sliding_window"):
        return ()
    if kinds is None:
        kinds = _default_layer_types(settings, layers)
    if unknown := set(kinds) - {"full_attention", "sliding_attention"}:
        raise CheckpointError(f"{settings.file}: layer type {sorted(unknown)[0]!r} is not supported")
    flags = tuple(kind == "sliding_attention" for kind in kinds)
    return flags if any(flags) else ()


def _default_layer_types(settings: _Settings, layers: int) -> list[str]:
    if settings.family in ("qwen2", "qwen3"):
        first = settings.count("max_window_layers")
        local = [layer >= first for layer in range(layers)]
    else:
        pattern = 2 if settings.family == "gemma2" else settings.count("sliding_window_pattern", 6)
        local = [(layer + 1) % pattern != 0 for layer in range(layers)]
    return ["sliding_attention" if each else "full_attention" for each in local]


def _max_position(settings: _Settings) -> int:
    length = settings.count("max_position_embeddings")
    rope = _rope_settings(settings, "full_attention")
    if rope["rope_type"] != "yarn":
        return length
    return max(length, int(_original_length(settings, rope) * float(rope["factor"])))


def _rope_settings(settings: _Settings, layer_type: str) -> dict[str, Any]:
    """rope_type, rope_theta and the scaling's own values for one kind of layer, whatever the spelling."""
    new = settings.get("rope_parameters")
    if new is not None:
        flat = dict(new.get(layer_type) or {}) if {"full_attention", "sliding_attention"} & set(new) else dict(new)
        if settings.family == "gemma3" and layer_type == "sliding_attention" and layer_type not in new:
            flat = {}
    elif layer_type == "full_attention":
        flat = dict(settings.get("rope_scaling") or {})
    else:
        flat = {}
    flat["rope_type"] = flat.get("rope_type", flat.get("type", "default"))
    if layer_type == "sliding_attention":
        theta = settings.get("rope_local_base_freq") or 10000.0
    else:
        theta = settings.get("rope_theta") or (1e6 if settings.family == "gemma3" else 10000.0)
    flat.setdefault("rope_theta", theta)
    return flat


def _original_length(settings: _Settings, rope: Mapping[str, Any]) -> int:
    for value in (settings.get("original_max_position_embeddings"), rope.get("original_max_position_embeddings")):
        if value is not None:
            return int(value)
    return settings.count("max_position_embeddings")


def _rope(settings: _Settings, head_dim: int, layer_type: str) -> Rope:
    rope = _rope_settings(settings, layer_type)
    kind, theta = rope["rope_type"], float(rope["rope_theta"])
    if kind not in _ROPE_TYPES:
        raise CheckpointError(
            f"{settings.file}: rope type {kind!r} is not supported (supported: {', '.join(_ROPE_TYPES)})"
        )
    if rope.get("partial_rotary_factor", settings.get("partial_rotary_factor")) not in (None, 1, 1.0):
        raise CheckpointError(f"{settings.file}: partial_rotary_factor is not supported")
    try:
        if kind == "linear":
            return Rope.linear(head_dim, theta, float(rope["factor"]))
        if kind == "llama3":
            return Rope.llama3(
                head_dim,
                theta,
                factor=float(rope["factor"]),
                low_frequency_factor=float(rope["low_freq_factor"]),
                high_frequency_factor=float(rope["high_freq_factor"]),
                original_max_position=_original_length(settings, rope),
            )
        return _yarn(settings, rope, head_dim, theta) if kind == "yarn" else Rope.plain(head_dim, theta)
    except KeyError as error:
        raise CheckpointError(f"{settings.file}: rope type {kind!r} lacks {error.args[0]}") from None


def _yarn(settings: _Settings, rope: Mapping[str, Any], head_dim: int, theta: float) -> Rope:
    return Rope.yarn(
        head_dim,
        theta,
        factor=float(rope["factor"]),
        original_max_position=_original_length(settings, rope),
        attention_factor=rope.get("attention_factor"),
        beta_fast=float(rope.get("beta_fast") or 32.0),
        beta_slow=float(rope.get("beta_slow") or 1.0),
        mscale=rope.get("mscale"),
        mscale_all_dim=rope.get("mscale_all_dim"),
        truncate=rope.get("truncate", True),
    )
