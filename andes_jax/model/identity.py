"""Whether two processes mean the same model, without comparing its weights."""

from __future__ import annotations

import hashlib
from dataclasses import fields

from andes_jax.model.spec import ModelSpec
from andes_jax.text.tokenizer import Tokenizer

DIGITS = 16


def model_identity(spec: ModelSpec, tokenizer: Tokenizer) -> str:
    """A digest of the decoder's sizes and switches and of every token's bytes: what token ids mean depends on these."""
    # Rotary frequencies are computed, and may differ in their last digit from machine to machine.
    shape = {each.name: getattr(spec, each.name) for each in fields(spec) if each.name not in ("rope", "local_rope")}
    digest = hashlib.sha256(repr((shape, tokenizer.eos_ids, tokenizer.table.strip_leading_space)).encode())
    for token_id in range(tokenizer.vocab_size):
        piece = tokenizer.table.bytes_of(token_id)
        digest.update(len(piece).to_bytes(4, "little") + piece)
    return digest.hexdigest()[:DIGITS]
