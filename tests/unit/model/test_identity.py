"""Models with the same meaning of token ids have one identity, others have another."""

from __future__ import annotations

from dataclasses import replace

from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.model.identity import DIGITS, model_identity
from andes_jax.text.token_table import TokenTable


class _Tokenizer:
    def __init__(self, pieces: list[bytes], eos_ids: tuple[int, ...] = (0,)) -> None:
        self.table = TokenTable(pieces)
        self.eos_ids = eos_ids
        self.vocab_size = len(pieces)


def test_identity_follows_the_spec_and_the_vocabulary():
    checkpoint = open_checkpoint()
    spec, tokenizer = checkpoint.spec, checkpoint.tokenizer()
    ours = model_identity(spec, tokenizer)
    assert len(ours) == DIGITS and ours == model_identity(open_checkpoint().spec, open_checkpoint().tokenizer())
    assert ours != model_identity(replace(spec, norm_eps=1e-3), tokenizer)
    different = [_Tokenizer([b"ab", b"c"]), _Tokenizer([b"a", b"bc"]), _Tokenizer([b"ab", b"c"], (1,))]
    assert len({model_identity(spec, each) for each in different}) == 3
