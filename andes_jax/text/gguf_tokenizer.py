"""The tokenizer that a GGUF file carries in its metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from andes_jax.text.backends import (
    byte_level_backend,
    byte_level_table,
    sentencepiece_backend,
    sentencepiece_table,
)
from andes_jax.text.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from andes_jax.text.vocabulary import TokenizerError, TokenizerParts, TokenKind, Vocabulary

_PREFIX = "tokenizer.ggml."
_PLACEHOLDER = re.compile(r"\[PAD\d+\]")
# Tokens that end a turn or a text. Files made by older converters name only one of them by id.
_ENDINGS = frozenset(
    (
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<EOT>",
        "[EOT]",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    )
)


def read_gguf_tokenizer(metadata: Mapping[str, Any]) -> TokenizerParts:
    """Parts of the tokenizer; `metadata` holds all keys of the file with plain Python values.

    Raises TokenizerError for keys that are missing, lists of different lengths, and kinds that are not supported.
    """
    model = metadata.get(_PREFIX + "model")
    if model is None:
        raise TokenizerError(f"the file has no tokenizer: {_PREFIX}model is missing")
    if model not in ("gpt2", "llama"):
        raise TokenizerError(f"tokenizer model {model!r} is not supported; gpt2 (byte-level BPE) and llama are")
    vocabulary = _vocabulary(metadata)
    if model == "gpt2":
        pre = _pre_tokenizer(metadata)
        backend = byte_level_backend(vocabulary, _merges(metadata), pre)
        table = byte_level_table(vocabulary)
        add_bos = pre.add_bos
    else:
        prefix = bool(metadata.get(_PREFIX + "add_space_prefix", True))
        vocabulary = _with_plain_spaces(vocabulary)
        scores = _list(metadata, "scores", len(vocabulary.tokens))
        backend = sentencepiece_backend(vocabulary, scores, add_space_prefix=prefix)
        table = sentencepiece_table(vocabulary, add_space_prefix=prefix)
        add_bos = True
    bos, eos = (_token_id(metadata, name, vocabulary) for name in ("bos_token_id", "eos_token_id"))
    add_bos = bool(metadata.get(_PREFIX + "add_bos_token", add_bos))
    add_eos = bool(metadata.get(_PREFIX + "add_eos_token", False))
    return TokenizerParts(
        backend=backend,
        table=table,
        control_ids=frozenset(vocabulary.ids_of(TokenKind.CONTROL)),
        bos_id=bos,
        eos_ids=_eos_ids(metadata, vocabulary),
        prefix_ids=(bos,) if add_bos and bos is not None else (),
        suffix_ids=(eos,) if add_eos and eos is not None else (),
    )


def _list(metadata: Mapping[str, Any], name: str, length: int | None = None) -> list[Any]:
    values = metadata.get(_PREFIX + name)
    if values is None:
        raise TokenizerError(f"the tokenizer is incomplete: {_PREFIX}{name} is missing")
    if length is not None and len(values) != length:
        raise TokenizerError(f"the tokenizer is damaged: {len(values)} {_PREFIX}{name} for {length} tokens")
    return list(values)


def _vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    tokens = [str(token) for token in _list(metadata, "tokens")]
    if _PREFIX + "token_type" in metadata:
        try:
            kinds = [TokenKind(int(kind) or 1) for kind in _list(metadata, "token_type", len(tokens))]
        except ValueError as error:
            raise TokenizerError(f"the tokenizer is damaged: {error} in {_PREFIX}token_type") from error
    else:
        kinds = [TokenKind.NORMAL] * len(tokens)
    for name in ("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id"):
        index = metadata.get(_PREFIX + name)
        if index is not None and 0 <= index < len(tokens):
            kinds[index] = TokenKind.CONTROL
    for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind is TokenKind.USER_DEFINED and token in _ENDINGS:
            kinds[index] = TokenKind.CONTROL
        elif kind is TokenKind.USER_DEFINED and token.startswith("[PAD") and _PLACEHOLDER.fullmatch(token):
            kinds[index] = TokenKind.UNUSED
    return Vocabulary(tokens, kinds)


def _with_plain_spaces(vocabulary: Vocabulary) -> Vocabulary:
    """User-defined tokens are matched in the text as it is written, so their marks have to be spaces."""
    tokens = [
        token.replace("\u2581", " ") if kind is TokenKind.USER_DEFINED else token
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
    ]
    return Vocabulary(tokens, vocabulary.kinds)


def _merges(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    merges = []
    for merge in _list(metadata, "merges"):
        left, space, right = merge.partition(" ")
        if not (left and space and right):
            raise TokenizerError(f"the tokenizer is damaged: {merge!r} in {_PREFIX}merges is not a pair of tokens")
        merges.append((left, right))
    return merges


def _pre_tokenizer(metadata: Mapping[str, Any]) -> PreTokenizer:
    name = metadata.get(_PREFIX + "pre", "default")
    if name not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise TokenizerError(f"pre-tokenizer {name!r} is not supported; supported are {known}")
    return PRE_TOKENIZERS[name]


def _token_id(metadata: Mapping[str, Any], name: str, vocabulary: Vocabulary) -> int | None:
    index = metadata.get(_PREFIX + name)
    if index is None:
        return None
    if not 0 <= index < len(vocabulary.tokens):
        raise TokenizerError(f"the tokenizer is damaged: {_PREFIX}{name} is {index} of {len(vocabulary.tokens)} tokens")
    return int(index)


def _eos_ids(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[int, ...]:
    named = [_token_id(metadata, name, vocabulary) for name in ("eos_token_id", "eot_token_id", "eom_token_id")]
    by_text = [index for index in vocabulary.ids_of(TokenKind.CONTROL) if vocabulary.tokens[index] in _ENDINGS]
    return tuple(dict.fromkeys(index for index in [*named, *by_text] if index is not None))
