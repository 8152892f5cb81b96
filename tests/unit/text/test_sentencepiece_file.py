"""SentencePiece's own file format, written here field by field."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from andes_jax.text.sentencepiece_file import read_sentencepiece_file
from andes_jax.text.tokenizer import Tokenizer, TokenizerError, from_hf_folder


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def piece(token: str, score: float, kind: int) -> bytes:
    # The kind is left out where it is the default, as writers do.
    return message(
        1,
        message(1, token.encode()) + b"\x15" + struct.pack("<f", score) + (number_field(3, kind) if kind != 1 else b""),
    )


def model(pieces: list[tuple[str, float, int]], kind: int = 2, prefix: bool | None = None) -> bytes:
    trainer = message(2, message(1, b"input.txt") + number_field(3, kind))
    normalizer = message(3, b"" if prefix is None else number_field(3, int(prefix)))
    return b"".join(piece(*each) for each in pieces) + trainer + normalizer


SMALL = [
    ("<unk>", 0.0, 2),
    ("<s>", 0.0, 3),
    ("</s>", 0.0, 3),
    ("a", -1.0, 1),
    ("\u2581", -2.0, 1),
    ("\u2581a", -0.5, 1),
]


def test_a_real_vocabulary_as_a_model_file_encodes_as_its_gguf(
    ggml_metadata: Callable[[str], dict[str, Any]], ggml_tokenizer: Callable[[str], Tokenizer], tmp_path: Path
) -> None:
    metadata = ggml_metadata("llama-spm")
    lists = (metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    (tmp_path / "tokenizer.model").write_bytes(model(list(zip(*lists, strict=True))))
    ours, theirs = from_hf_folder(tmp_path), ggml_tokenizer("llama-spm")
    for text in ("Hello,  world\n", "你好 \U0001f600 ưữ", "</s> in text", ""):
        for trusted in (True, False):
            assert ours.encode(text, add_special=True, parse_special=trusted) == theirs.encode(
                text, add_special=True, parse_special=trusted
            )
    assert (ours.bos_id, ours.eos_ids, ours.vocab_size) == (1, (2,), 32000)


def test_fields_are_read() -> None:
    read = read_sentencepiece_file(model(SMALL))
    assert list(zip(read.vocabulary.tokens, read.scores, read.vocabulary.kinds, strict=True)) == SMALL
    assert read.add_space_prefix
    assert not read_sentencepiece_file(model(SMALL, prefix=False)).add_space_prefix


def test_added_tokens_of_the_folder_count(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(model(SMALL))
    added = {"6": {"content": "<|im_end|>", "special": True}, "7": {"content": "<tool>"}, "1": {"content": "<s>"}}
    settings = {"added_tokens_decoder": added, "add_bos_token": False, "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = from_hf_folder(tmp_path)
    assert tokenizer.encode("a<|im_end|><tool>", add_special=True) == [5, 6, 7]
    assert tokenizer.eos_ids == (6,) and tokenizer.table.is_special(6) and not tokenizer.table.is_special(7)
    added["9"] = {"content": "<far>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(TokenizerError, match="'<far>' has id 9"):
        from_hf_folder(tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "holds no tokens"),
        (model(SMALL, kind=1), "model type 1 is not supported"),
        (model(SMALL)[:-3], "damaged"),
        (model([("a", 0.0, 77)]), "damaged"),
        (b"\xff" * 20, "damaged"),
        (b"PK\x03\x04 not a model at all", "damaged"),
    ],
)
def test_damaged_and_other_models_are_refused(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=words):
        read_sentencepiece_file(data)
    (tmp_path / "tokenizer.model").write_bytes(data)
    with pytest.raises(TokenizerError, match=r"tokenizer\.model: "):
        from_hf_folder(tmp_path)


def test_every_cut_of_a_file_is_refused_in_words() -> None:
    whole = model(SMALL, prefix=True)
    pieces_alone = {sum(len(piece(*each)) for each in SMALL[:count]) for count in range(len(SMALL) + 1)}
    for size in range(len(whole)):
        if size in pieces_alone or size >= len(whole) - len(message(3, number_field(3, 1))):
            continue  # cut between fields: not to be told from a shorter file
        with pytest.raises(TokenizerError):
            read_sentencepiece_file(whole[:size])
