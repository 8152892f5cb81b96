"""GGUF models: llama.cpp's tensor names, layouts and quantised weights in the decoder's own terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from andes_jax.model.checkpoints.base import Checkpoint, validate
from andes_jax.model.checkpoints.gguf_file import GgufFile, open_gguf
from andes_jax.model.checkpoints.gguf_spec import ROPE_FACTORS, spec_of
from andes_jax.model.checkpoints.text_files import save_gguf_text, template_from_gguf, tokenizer_from_gguf
from andes_jax.text.chat import ChatTemplate
from andes_jax.text.tokenizer import Tokenizer

_WHOLE = {
    "token_embd.weight": "embed_tokens.weight",
    "output_norm.weight": "norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_IN_GEMMA_LAYER = _IN_LAYER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


class GgufCheckpoint(Checkpoint):
    """One GGUF file. Raises CheckpointError when it is damaged, unsupported or does not fit its own metadata."""

    def __init__(self, path: Path) -> None:
        self._file: GgufFile = open_gguf(path)
        self.source = str(path)
        self.spec = spec_of(self._file)
        self._names = {
            canonical_name(name, gemma=self.spec.post_norms): name
            for name in self._file.tensors
            if name != ROPE_FACTORS
        }
        validate(self.source, self.spec, {name: self._file.tensors[own].shape for name, own in self._names.items()})

    @property
    def metadata(self) -> dict[str, Any]:
        """All metadata keys and values of the file."""
        return self._file.metadata

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        for name, own in self._names.items():
            yield name, self._tensor(name, own)

    def _tensor(self, name: str, own: str) -> np.ndarray:
        values = self._file.read(own)
        # Only the llama architecture stores query and key rows for interleaved RoPE.
        if self._file.metadata["general.architecture"] == "llama":
            if ".q_proj." in name:
                return half_split_rows(values, self.spec.heads)
            if ".k_proj." in name:
                return half_split_rows(values, self.spec.kv_heads)
        return values

    def tokenizer(self) -> Tokenizer:
        return tokenizer_from_gguf(self.source, self._file.metadata)

    def chat_template(self) -> ChatTemplate | None:
        return template_from_gguf(self.source, self._file.metadata)

    def save_tokenizer(self, folder: Path) -> None:
        save_gguf_text(self._file.metadata, folder)


def canonical_name(name: str, *, gemma: bool) -> str:
    """The decoder's name of a GGUF tensor; a name of no known tensor stays as it is."""
    if name in _WHOLE:
        return _WHOLE[name]
    match = _LAYER.fullmatch(name)
    part = match and (_IN_GEMMA_LAYER if gemma else _IN_LAYER).get(match[2])
    return f"layers.{int(match[1])}.{part}.{match[3]}" if match and part else name


def half_split_rows(values: np.ndarray, heads: int) -> np.ndarray:
    """Reorder [heads * head_dim, ...] rows from interleaved RoPE pairs (0, 1), (2, 3) to halves (0, head_dim / 2)."""
    pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)
