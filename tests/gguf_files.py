"""Tiny GGUF files for tests: canonical tensors, laid out as llama.cpp's converter does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from andes_jax.model.spec import ModelSpec, expected_shapes

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}"
SPECIAL = ["<s>", "</s>"]
_WHOLE = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
_IN_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NORMS = {"post_attention_layernorm": "ffn_norm"}
_GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def random_tensors(spec: ModelSpec, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded float32 noise for every tensor of a spec, by canonical name."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in expected_shapes(spec).items()}


def write_gguf(
    path: Path,
    spec: ModelSpec,
    tensors: Mapping[str, np.ndarray],
    *,
    keys: Mapping[str, Any] | None = None,
    matrices: GGMLQuantizationType = GGMLQuantizationType.F32,
    rope_factors: np.ndarray | None = None,
    tokenizer: bool = True,
) -> None:
    """Write a model. `keys` adds to or, by None, removes from the metadata; keys of the architecture lack its prefix.

    Matrices are stored as `matrices` where their rows are whole blocks of it, vectors as float32.
    """
    architecture = "llama" if spec.family == "mistral" else spec.family
    writer = GGUFWriter(path, architecture)
    for key, value in (_metadata(spec) | (_tokenizer(spec.vocab) if tokenizer else {}) | dict(keys or {})).items():
        full = key if key.startswith(("tokenizer.", "general.", "split.")) else f"{architecture}.{key}"
        if value is not None and key != "general.architecture":
            _add(writer, full, value)
    for name, values in tensors.items():
        own = own_name(name, gemma=spec.post_norms)
        if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            values = interleaved_rows(values, spec.heads if ".q_proj." in name else spec.kv_heads)
        kind = matrices if values.ndim == 2 and values.shape[1] % gguf.GGML_QUANT_SIZES[matrices][0] == 0 else None
        if kind is None:
            writer.add_tensor(own, np.ascontiguousarray(values, np.float32))
        else:
            writer.add_tensor(own, gguf.quants.quantize(values, kind), raw_dtype=kind)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def own_name(name: str, *, gemma: bool) -> str:
    """llama.cpp's name of a canonical tensor."""
    stem, kind = name.rsplit(".", 1)
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.{kind}"
    _, layer, part = stem.split(".", 2)
    return f"blk.{layer}.{(_IN_LAYER | (_GEMMA_NORMS if gemma else _NORMS))[part]}.{kind}"


def interleaved_rows(values: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to the query and key rows of Llama models."""
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def _metadata(spec: ModelSpec) -> dict[str, Any]:
    return {
        "block_count": spec.layers,
        "context_length": spec.max_position,
        "embedding_length": spec.hidden,
        "feed_forward_length": spec.intermediate,
        "attention.head_count": spec.heads,
        "attention.head_count_kv": spec.kv_heads,
        "attention.key_length": spec.head_dim,
        "attention.value_length": spec.head_dim,
        "attention.layer_norm_rms_epsilon": spec.norm_eps,
        "rope.freq_base": 10000.0,
        "attention.sliding_window": spec.sliding_window,
        "attn_logit_softcapping": spec.attention_softcap,
        "final_logit_softcapping": spec.logit_softcap,
    }


def _tokenizer(vocab: int) -> dict[str, Any]:
    """A byte-level vocabulary of ASCII, one merge, and as many more single bytes as the size asks for."""
    characters = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"] + [chr(code) for code in range(0xAE, 0x100)]
    tokens = (SPECIAL + ["he"] + characters)[:vocab]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)),
        "tokenizer.ggml.merges": ["h e"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.chat_template": TEMPLATE,
    }


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)
