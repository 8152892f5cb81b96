"""Builds the two kinds of `tokenizers` pipelines that the supported models use, from bare vocabularies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from andes_jax.text.pre_tokenizers import PreTokenizer
from andes_jax.text.token_table import SPACE_MARK, TokenTable, byte_level_piece, sentencepiece_piece
from andes_jax.text.vocabulary import TokenizerError, TokenKind, Vocabulary

_SPECIAL = (TokenKind.CONTROL, TokenKind.UNKNOWN)


def byte_level_table(vocabulary: Vocabulary) -> TokenTable:
    """Bytes of a byte-level BPE vocabulary; only normal tokens are spelt in its alphabet."""
    spelt = (TokenKind.NORMAL, TokenKind.UNUSED)
    pieces = [
        byte_level_piece(token) if kind in spelt else token.encode("utf-8")
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
    ]
    return TokenTable(pieces, vocabulary.ids_of(*_SPECIAL))


def byte_level_backend(vocabulary: Vocabulary, merges: Sequence[tuple[str, str]], pre: PreTokenizer) -> Tokenizer:
    """Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM); raises TokenizerError when merges and tokens do not fit."""
    model = _bpe(vocabulary, merges, ignore_merges=pre.ignore_merges)
    backend = Tokenizer(model)
    if pre.compose:
        backend.normalizer = normalizers.NFC()
    cuts: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in pre.patterns]
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = decoders.ByteLevel()
    _add_tokens(backend, vocabulary)
    return backend


def sentencepiece_table(vocabulary: Vocabulary, *, add_space_prefix: bool) -> TokenTable:
    """Bytes of a SentencePiece vocabulary. Where texts get a space in front, texts of ids lose one."""
    pieces = [sentencepiece_piece(token) for token in vocabulary.tokens]
    return TokenTable(pieces, vocabulary.ids_of(*_SPECIAL), strip_leading_space=add_space_prefix)


def sentencepiece_backend(vocabulary: Vocabulary, scores: Sequence[float], *, add_space_prefix: bool) -> Tokenizer:
    """SentencePiece BPE with byte fallback (Llama 2, Mistral, Gemma).

    The pair whose concatenation scores best merges first, the leftmost of equals. Every stretch of text between control
    or user-defined tokens gets its own space in front where `add_space_prefix` is set, as in llama.cpp.
    """
    unknown = next((vocabulary.tokens[index] for index in vocabulary.ids_of(TokenKind.UNKNOWN)), None)
    model = _bpe(
        vocabulary,
        _merges_by_score(vocabulary, scores),
        byte_fallback=True,
        fuse_unk=unknown is not None,
        unk_token=unknown,
    )
    backend = Tokenizer(model)
    marked = normalizers.Replace(" ", SPACE_MARK)
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE_MARK), marked]) if add_space_prefix else marked
    steps: list[Any] = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if add_space_prefix else []))
    _add_tokens(backend, vocabulary)
    return backend


def _merges_by_score(vocabulary: Vocabulary, scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to put a token together from two others, the best scored token first."""
    mergeable = {
        token: float(score)
        for token, kind, score in zip(vocabulary.tokens, vocabulary.kinds, scores, strict=True)
        if kind in (TokenKind.NORMAL, TokenKind.UNUSED)
    }
    merges = []
    for token in sorted(mergeable, key=mergeable.__getitem__, reverse=True):
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in mergeable and right in mergeable:
                merges.append((left, right))
    return merges


def _bpe(vocabulary: Vocabulary, merges: Sequence[tuple[str, str]], **options: Any) -> models.BPE:
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    try:
        return models.BPE(vocab=ids, merges=list(merges), **options)
    except Exception as error:  # the library raises bare exceptions for merges of tokens that do not exist
        raise TokenizerError(f"the tokenizer's merges do not fit its tokens: {error}") from error


def _add_tokens(backend: Tokenizer, vocabulary: Vocabulary) -> None:
    """Make control and user-defined tokens match whole, before any normalising."""
    ids = vocabulary.ids_of(TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED)
    backend.add_tokens(
        [
            AddedToken(vocabulary.tokens[index], normalized=False, special=vocabulary.kinds[index] in _SPECIAL)
            for index in ids
            if vocabulary.tokens[index]
        ]
    )
