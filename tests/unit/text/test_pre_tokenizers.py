"""How texts are cut into words before merging."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers

from andes_jax.text.backends import byte_level_backend
from andes_jax.text.pre_tokenizers import PRE_TOKENIZERS
from andes_jax.text.token_table import byte_level_piece
from andes_jax.text.vocabulary import TokenKind, Vocabulary

MIXED = "I'll SAY HelloWorld: 12345 你好 한국 café\n\n  \t x=a||b; …!?\r\n   "


def backend_of(name: str) -> Backend:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return byte_level_backend(Vocabulary(alphabet, [TokenKind.NORMAL] * 256), [], PRE_TOKENIZERS[name])


def words(name: str, text: str) -> list[str]:
    cut = backend_of(name).pre_tokenizer.pre_tokenize_str(text)
    return [byte_level_piece(word).decode() for word, _ in cut]


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
def test_cuts_lose_nothing(name: str) -> None:
    assert "".join(words(name, MIXED)) == MIXED
    assert words(name, "") == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gpt-2", "I'll pay 12345  now", ["I", "'ll", " pay", " 12345", " ", " now"]),
        ("gpt-2", "I'LL", ["I", "'", "LL"]),
        ("smollm", "pay 123  now", ["pay", " ", "1", "2", "3", " ", " now"]),
        ("llama-bpe", "I'LL pay 12345  now", ["I", "'LL", " pay", " ", "123", "45", " ", " now"]),
        ("llama-bpe", "(x)\n\n y", ["(x", ")\n\n", " y"]),
        ("qwen2", "I'LL pay 123", ["I", "'LL", " pay", " ", "1", "2", "3"]),
        ("tekken", "HelloWorld I'll a/\n", ["Hello", "World", " I", "'ll", " a", "/\n"]),
        ("gpt-4o", "HelloWorld I'll 1234", ["Hello", "World", " I'll", " ", "123", "4"]),
        ("deepseek-v3", "ab你好1234 c", ["ab", "你好", "123", "4", " c"]),
        ("deepseek-coder", "ab 12\n", ["ab", " ", "1", "2", "\n"]),
        ("default", "a+b 12345", ["a", "+", "b", " ", "123", "45"]),
    ],
)
def test_cuts_are_those_of_the_models(name: str, text: str, expected: list[str]) -> None:
    assert words(name, text) == expected
