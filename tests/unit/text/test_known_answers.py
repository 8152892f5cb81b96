"""Every known answer of every vocabulary, and the way back to the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from andes_jax.text.tokenizer import Tokenizer

VOCABULARIES = Path(__file__).parents[2] / "data" / "tokenizers"
NAMES = ("gpt-2", "llama-spm", "phi-3", "qwen2")


def known_answers(name: str) -> list[tuple[str, list[int]]]:
    # Not splitlines: the texts hold carriage returns and the separators of other scripts.
    texts = (VOCABULARIES / f"ggml-vocab-{name}.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    answers = (VOCABULARIES / f"ggml-vocab-{name}.gguf.out").read_bytes().decode().split("\n")
    ids = [[int(word) for word in answer.split()] for answer in answers]
    assert len(texts) == len(ids) == 47
    return list(zip(texts, ids, strict=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parse_special", [True, False])
def test_encode_gives_every_known_answer(
    name: str, parse_special: bool, ggml_tokenizer: Callable[[str], Tokenizer]
) -> None:
    tokenizer = ggml_tokenizer(name)
    for text, ids in known_answers(name):
        assert tokenizer.encode(text, add_special=False, parse_special=parse_special) == ids


@pytest.mark.parametrize("name", NAMES)
def test_decode_gives_the_text_back(name: str, ggml_tokenizer: Callable[[str], Tokenizer]) -> None:
    tokenizer = ggml_tokenizer(name)
    for text, ids in known_answers(name):
        assert tokenizer.decode(ids) == text
        joined = b"".join(tokenizer.table.bytes_of(token_id) for token_id in ids).decode()
        assert joined == (" " + text if ids and tokenizer.table.strip_leading_space else text)
