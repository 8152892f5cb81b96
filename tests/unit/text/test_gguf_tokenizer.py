"""What a tokenizer from GGUF metadata adds, trusts, ends with and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from andes_jax.text.tokenizer import Tokenizer, TokenizerError, from_gguf

Metadata = Callable[[str], dict[str, Any]]

TEXTS = [
    "The year is 2024, and   indentation\n\n    matters:\n\treturn x**2  # 12,345.67",
    "你好，世界！今天天气很好。한국어 텍스트와 이모지 👩‍👩‍👧‍👦🇫🇷 naïve café",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    " leading and trailing  ",
    "\r\n\u00a0\u3000\u200b\x00",
]


def byte_level(**changes: Any) -> dict[str, Any]:
    """A vocabulary of a few words that is small enough to read."""
    tokens = ["h", "i", "hi", "Ġ", "Ġhi", "<s>", "</s>", "<tool>", "<|eot_id|>", "[PAD9]", "!"]
    kinds = [1, 1, 1, 1, 1, 3, 3, 4, 4, 4, 1]
    metadata = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": kinds,
        "merges": ["h i", "Ġ hi"],
        "bos_token_id": 5,
        "eos_token_id": 6,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in (metadata | changes).items() if value is not None}


def test_smollm2_agrees_with_a_pipeline_of_hugging_faces_own_parts(
    smollm2: Tokenizer, smollm2_metadata: dict[str, Any]
) -> None:
    tokens, kinds, merges = (smollm2_metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type", "merges"))
    model = models.BPE({token: index for index, token in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges])
    reference = Backend(model)
    reference.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    reference.decoder = decoders.ByteLevel()
    controls = [
        AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, kinds, strict=True) if kind == 3
    ]
    reference.add_special_tokens(controls)
    for text in TEXTS:
        ids = smollm2.encode(text, add_special=True)
        assert ids == reference.encode(text).ids
        assert smollm2.decode(ids) == reference.decode(ids)
        assert smollm2.decode(ids, skip_special=False) == reference.decode(ids, skip_special_tokens=False) == text


def test_smollm2_ends_with_its_own_end_of_turn_first(smollm2: Tokenizer) -> None:
    assert smollm2.eos_ids[0] == 2
    assert [smollm2.text_of(token_id) for token_id in smollm2.eos_ids] == ["<|im_end|>", "<|endoftext|>"]
    assert (smollm2.text_of(smollm2.bos_id), smollm2.vocab_size) == ("<|im_start|>", 49152)


def test_control_tokens_are_spelt_out_unless_their_writer_is_trusted(smollm2: Tokenizer) -> None:
    text = "a<|im_end|>b"
    assert 2 in smollm2.encode(text, add_special=False)
    wary = smollm2.encode(text, add_special=False, parse_special=False)
    assert not any(smollm2.table.is_special(token_id) for token_id in wary)
    assert smollm2.decode(wary) == text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [2]),
        ({"add_bos_token": True}, [5, 2]),
        ({"add_eos_token": True}, [2, 6]),
        ({"pre": "llama-bpe"}, [5, 2]),
        ({"pre": "llama-bpe", "add_bos_token": False}, [2]),
        ({"add_bos_token": True, "bos_token_id": None}, [2]),
    ],
)
def test_add_special_adds_what_the_model_says(changes: dict[str, Any], expected: list[int]) -> None:
    tokenizer = from_gguf(byte_level(**changes))
    assert tokenizer.encode("hi", add_special=True) == expected
    assert tokenizer.encode("hi", add_special=False) == [2]


def test_sentencepiece_adds_bos_and_a_space_before_every_stretch_of_text(
    ggml_tokenizer: Callable[[str], Tokenizer],
) -> None:
    tokenizer = ggml_tokenizer("llama-spm")
    hello = tokenizer.encode("Hello", add_special=False)
    assert tokenizer.encode("Hello</s>Hello", add_special=True) == [1, *hello, 2, *hello]
    assert tokenizer.decode([1, *hello]) == "Hello"
    assert tokenizer.decode([1, *hello], skip_special=False) == "<s> Hello"


def test_sentencepiece_without_space_prefix_keeps_texts_as_they_are(ggml_metadata: Metadata) -> None:
    tokenizer = from_gguf(ggml_metadata("llama-spm") | {"tokenizer.ggml.add_space_prefix": False})
    for text in ("Hello", " Hello", "  x"):
        ids = tokenizer.encode(text, add_special=False)
        assert b"".join(map(tokenizer.table.bytes_of, ids)).decode() == tokenizer.decode(ids) == text


def test_qwen2_composes_letters_as_its_model_was_trained(ggml_tokenizer: Callable[[str], Tokenizer]) -> None:
    tokenizer = ggml_tokenizer("qwen2")
    assert tokenizer.encode("cafe\u0301", add_special=False) == tokenizer.encode("café", add_special=False)


def test_user_defined_tokens_match_whole_for_everyone() -> None:
    tokenizer = from_gguf(byte_level())
    for parse_special in (True, False):
        assert tokenizer.encode("hi<tool>hi", add_special=False, parse_special=parse_special) == [2, 7, 2]
    assert tokenizer.decode([2, 7]) == "hi<tool>"


def test_endings_are_control_tokens_and_placeholders_are_not_text() -> None:
    tokenizer = from_gguf(byte_level())
    assert tokenizer.eos_ids == (6, 8)
    assert tokenizer.table.is_special(8)
    assert 9 not in tokenizer.encode("hi[PAD9]", add_special=False)


def test_user_defined_spaces_of_sentencepiece_match_spaces() -> None:
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "a", "\u2581", "\u2581\u2581"],
        "tokenizer.ggml.scores": [0.0, -1.0, -2.0, 0.0],
        "tokenizer.ggml.token_type": [2, 1, 1, 4],
        "tokenizer.ggml.add_space_prefix": False,
    }
    tokenizer = from_gguf(metadata)
    assert tokenizer.encode("a  a a", add_special=False) == [1, 3, 1, 2, 1]
    assert tokenizer.decode([1, 3, 1, 2, 1]) == "a  a a"
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.text_of(None)) == (None, (), "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "tokenizer.ggml.model is missing"),
        ({"model": "bert"}, "'bert' is not supported"),
        ({"model": "t5"}, "'t5' is not supported"),
        ({"pre": "no-such"}, "'no-such' is not supported"),
        ({"tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"merges": None}, "tokenizer.ggml.merges is missing"),
        ({"merges": ["hi"]}, "'hi' in tokenizer.ggml.merges"),
        ({"merges": ["h x"]}, "do not fit"),
        ({"token_type": [1]}, "1 tokenizer.ggml.token_type for 11 tokens"),
        ({"token_type": [77] * 11}, "77"),
        ({"eos_token_id": 11}, "eos_token_id is 11 of 11"),
        ({"model": "llama"}, "tokenizer.ggml.scores is missing"),
    ],
)
def test_what_cannot_be_built_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TokenizerError, match=words):
        from_gguf(byte_level(**changes))


def test_a_file_without_token_types_still_knows_its_ends() -> None:
    tokenizer = from_gguf(byte_level(token_type=None))
    assert tokenizer.table.is_special(6) and not tokenizer.table.is_special(7)
    assert tokenizer.encode("hi</s>", add_special=False) == [2, 6]
