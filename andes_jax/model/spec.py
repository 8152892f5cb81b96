"""What a decoder is, as one immutable value: every supported family is a setting of it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from andes_jax.model.rope import Rope

Family = Literal["llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3"]
Activation = Literal["silu", "gelu_tanh"]
MAX_LAYERS = 4096  # far above any model: a damaged file must not make us plan for more
FAMILIES: tuple[str, ...] = get_args(Family)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Sizes and switches of one decoder. Raises ValueError when they contradict each other."""

    family: Family
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_position: int  # tokens the model was made for, prompt and reply together
    norm_eps: float
    rope: Rope
    attention_scale: float  # multiplies query . key, head_dim ** -0.5 in most families
    activation: Activation = "silu"
    attention_bias: bool = False  # of the query, key and value projections
    qk_norm: bool = False  # RMS norm of each query and key head before RoPE
    post_norms: bool = False  # Gemma: a norm after attention and after the MLP as well, before the residual sum
    embedding_scale: float = 1.0
    tied: bool = False  # the output projection is the embedding
    local_rope: Rope | None = None  # RoPE of the windowed layers where it differs (Gemma 3)
    sliding_window: int | None = None  # a query sees itself and the sliding_window - 1 tokens before it
    windowed: tuple[bool, ...] = ()  # per layer, whether the window applies; () for no layer
    attention_softcap: float | None = None  # scores become cap * tanh(scores / cap)
    logit_softcap: float | None = None

    def __post_init__(self) -> None:
        if problem := _contradiction(self):
            raise ValueError(problem)

    def rope_of(self, layer: int) -> Rope:
        """The rotary embedding of one layer."""
        return self.local_rope if self.local_rope is not None and self.is_windowed(layer) else self.rope

    def window_of(self, layer: int) -> int | None:
        """How many tokens a query of this layer sees, itself included; None for all."""
        return self.sliding_window if self.is_windowed(layer) else None

    @property
    def parameters(self) -> int:
        """Weights in all, a tied output projection counted once."""
        return sum(math.prod(shape) for shape in expected_shapes(self).values())

    def is_windowed(self, layer: int) -> bool:
        """Whether the sliding window applies to this layer."""
        return bool(self.windowed) and self.windowed[layer]


def _contradiction(spec: ModelSpec) -> str | None:
    for name in ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "max_position"):
        if getattr(spec, name) < 1:
            return f"{name} is {getattr(spec, name)}"
    if spec.layers > MAX_LAYERS:
        return f"{spec.layers} layers are more than {MAX_LAYERS}"
    if spec.family not in FAMILIES:
        return f"family {spec.family!r} is none of {', '.join(FAMILIES)}"
    if spec.activation not in get_args(Activation):
        return f"activation {spec.activation!r} is none of {', '.join(get_args(Activation))}"
    if spec.heads % spec.kv_heads:
        return f"{spec.heads} heads cannot share {spec.kv_heads} key/value heads"
    if spec.head_dim % 2:
        return f"head_dim {spec.head_dim} is odd"
    for rope in (spec.rope, spec.local_rope):
        if rope is not None and len(rope.inverse_frequencies) != spec.head_dim // 2:
            return f"{len(rope.inverse_frequencies)} rope frequencies for head_dim {spec.head_dim}"
    if spec.windowed and len(spec.windowed) != spec.layers:
        return f"{len(spec.windowed)} window flags for {spec.layers} layers"
    if any(spec.windowed) and (spec.sliding_window is None or spec.sliding_window < 1):
        return f"windowed layers with a sliding window of {spec.sliding_window}"
    return None


def expected_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Canonical tensor name -> shape of every weight such a decoder has; projections are [out, in]."""
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (spec.vocab, spec.hidden)}
    for layer in range(spec.layers):
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in _layer_shapes(spec).items()}
    shapes["norm.weight"] = (spec.hidden,)
    if not spec.tied:
        shapes["lm_head.weight"] = (spec.vocab, spec.hidden)
    return shapes


def _layer_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (spec.hidden,),
        "self_attn.q_proj.weight": (queries, spec.hidden),
        "self_attn.k_proj.weight": (keys, spec.hidden),
        "self_attn.v_proj.weight": (keys, spec.hidden),
        "self_attn.o_proj.weight": (spec.hidden, queries),
        "post_attention_layernorm.weight": (spec.hidden,),
        "mlp.gate_proj.weight": (spec.intermediate, spec.hidden),
        "mlp.up_proj.weight": (spec.intermediate, spec.hidden),
        "mlp.down_proj.weight": (spec.hidden, spec.intermediate),
    }
    if spec.attention_bias:
        shapes |= {
            "self_attn.q_proj.bias": (queries,),
            "self_attn.k_proj.bias": (keys,),
            "self_attn.v_proj.bias": (keys,),
        }
    if spec.qk_norm:
        shapes |= {"self_attn.q_norm.weight": (spec.head_dim,), "self_attn.k_norm.weight": (spec.head_dim,)}
    if spec.post_norms:
        shapes |= {
            "pre_feedforward_layernorm.weight": (spec.hidden,),
            "post_feedforward_layernorm.weight": (spec.hidden,),
        }
    return shapes


def spec_to_json(spec: ModelSpec) -> dict[str, Any]:
    """The spec as plain JSON values; spec_from_json is its inverse."""
    return asdict(spec)


def spec_from_json(values: dict[str, Any]) -> ModelSpec:
    """Rebuild a spec from spec_to_json's output. Raises ValueError for missing, unknown or contradictory values."""
    known = {field.name for field in fields(ModelSpec)}
    if unknown := sorted(set(values) - known):
        raise ValueError(f"unknown spec fields {', '.join(unknown)}")
    try:
        ropes = {
            name: Rope(tuple(values[name]["inverse_frequencies"]), values[name]["attention_factor"])
            for name in ("rope", "local_rope")
            if values.get(name) is not None
        }
        return ModelSpec(**{**values, **ropes, "windowed": tuple(values.get("windowed", ()))})
    except (TypeError, KeyError) as error:
        raise ValueError(f"incomplete spec: {error}") from None
