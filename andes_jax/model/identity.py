"""Whether two processes mean the same model, without comparing its weights."""

from __future__ import annotations

import hashlib

from andes_jax.model.spec import ModelSpec
from andes_jax.text.tokenizer import Tokenizer

DIGITS = 16


def model_identity(spec: ModelSpec, tokenizer: Tokenizer) -> str:
    """A digest of the decoder's sizes and switches and of every token's bytes: what token ids mean depends on these."""
    digest = hashlib.sha256(repr((spec, tokenizer.eos_ids, tokenizer.table.strip_leading_space)).encode())
    for token_id in range(tokenizer.vocab_size):
        piece = tokenizer.table.bytes_of(token_id)
        digest.update(len(piece).to_bytes(4, "little") + piece)
    return digest.hexdigest()[:DIGITS]
