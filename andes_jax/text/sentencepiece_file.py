"""Reads SentencePiece's tokenizer.model, a protocol buffer, without the sentencepiece library.

Field numbers are those of sentencepiece_model.proto: ModelProto{pieces=1, trainer_spec=2, normalizer_spec=3},
SentencePiece{piece=1, score=2, type=3}, TrainerSpec{model_type=3}, NormalizerSpec{add_dummy_prefix=3}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from andes_jax.text.vocabulary import TokenizerError, TokenKind, Vocabulary

_BPE = 2
_UNIGRAM = 1


@dataclass(frozen=True)
class SentencePieceFile:
    """What a tokenizer.model holds that encoding needs."""

    vocabulary: Vocabulary
    scores: list[float]
    add_space_prefix: bool


def read_sentencepiece_file(data: bytes) -> SentencePieceFile:
    """Parse a whole file; raises TokenizerError for damaged files and for models that are not BPE."""
    tokens: list[str] = []
    scores: list[float] = []
    kinds: list[TokenKind] = []
    model_type, add_space_prefix = _UNIGRAM, True
    try:
        for number, value in _fields(data):
            if number == 1:
                token, score, kind = _piece(_message(value))
                tokens.append(token)
                scores.append(score)
                kinds.append(kind)
            elif number == 2:
                model_type = next((v for n, v in _fields(_message(value)) if n == 3 and isinstance(v, int)), _UNIGRAM)
            elif number == 3:
                add_space_prefix = all(v for n, v in _fields(_message(value)) if n == 3)
    except (IndexError, struct.error, ValueError) as error:
        raise TokenizerError(f"the SentencePiece model is damaged: {error}") from error
    if not tokens:
        raise TokenizerError("the SentencePiece model holds no tokens")
    if model_type != _BPE:
        raise TokenizerError(f"SentencePiece model type {model_type} is not supported without a tokenizer.json")
    return SentencePieceFile(Vocabulary(tokens, kinds), scores, add_space_prefix)


def _piece(data: bytes) -> tuple[str, float, TokenKind]:
    token, score, kind = "", 0.0, TokenKind.NORMAL
    for number, value in _fields(data):
        if number == 1:
            token = _message(value).decode("utf-8")
        elif number == 2:
            (score,) = struct.unpack("<f", _message(value))
        elif number == 3:
            kind = TokenKind(int(value))
    return token, score, kind


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where text should")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of one message: integers for varints, bytes for all else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + size > len(data):
            raise ValueError(f"a field of {size} bytes at byte {at} of {len(data)}: the file is cut")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError(f"a number at byte {at} never ends")
