"""Text to token ids and back, the same for every source of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from andes_jax.text.gguf_tokenizer import read_gguf_tokenizer
from andes_jax.text.hf_tokenizer import read_hf_tokenizer
from andes_jax.text.token_table import TokenTable
from andes_jax.text.vocabulary import TokenizerError, TokenizerParts

__all__ = ["TokenTable", "Tokenizer", "TokenizerError", "from_gguf", "from_hf_folder"]


class Tokenizer:
    """Encodes and decodes. Never changes once made; every method may be called from many threads at once."""

    def __init__(self, parts: TokenizerParts) -> None:
        self.table = parts.table
        self.bos_id = parts.bos_id
        self.eos_ids = parts.eos_ids
        self._controls = parts.control_ids
        self._prefix = list(parts.prefix_ids)
        self._suffix = list(parts.suffix_ids)
        self._trusting = parts.backend
        self._wary = _without_control_tokens(parts.backend)

    @property
    def vocab_size(self) -> int:
        """Number of ids, each below it; a model's logits may be wider, never narrower."""
        return self.table.vocab_size

    def encode(self, text: str, *, add_special: bool, parse_special: bool = True) -> list[int]:
        """Ids of a text.

        `add_special` puts BOS before it and EOS after it where the model wants them: not for a rendered chat, whose
        template writes them. `parse_special` turns a control token's text into that token; without it control tokens
        are spelt out, so that a user's text cannot pose as one. User-defined tokens are matched either way. Raises
        ValueError for text that no tokenizer can encode (lone surrogates).
        """
        backend = self._trusting if parse_special else self._wary
        try:
            # Without offsets, which nobody needs here; frees the interpreter for other threads meanwhile.
            (encoding,) = backend.encode_batch_fast([text], add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            _check_unicode(text)
            raise
        ids: list[int] = encoding.ids
        if not parse_special and not self._controls.isdisjoint(ids):
            ids = self._spelt_out(text)
        return self._prefix + ids + self._suffix if add_special else ids

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Text of ids, exactly what a stream of them shows; raises ValueError for ids outside the vocabulary."""
        return self.table.decode(ids, skip_special=skip_special)

    def text_of(self, token_id: int | None) -> str:
        """Text of one token, also of a special one; empty for None. What chat templates call bos_token."""
        return "" if token_id is None else self.table.bytes_of(token_id).decode("utf-8", "replace")

    def _spelt_out(self, text: str) -> list[int]:
        """The ids, with control tokens that the model itself made of plain text replaced by their characters' ids."""
        encoding = self._wary.encode(text, add_special_tokens=False)
        ids: list[int] = []
        for token_id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if token_id not in self._controls:
                ids.append(token_id)
                continue
            spelt: list[int] = []
            for character in text[start:end]:
                spelt.extend(self._wary.encode(character, add_special_tokens=False).ids)
            if not self._controls.isdisjoint(spelt):
                raise ValueError(f"the text holds {text[start:end]!r}, which this model has only as a control token")
            ids.extend(spelt)
        return ids


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"the text is not Unicode: a lone surrogate at character {error.start}") from error


def _without_control_tokens(backend: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same pipeline, sharing its model, that takes the text of control tokens for text."""
    wary = tokenizers.Tokenizer(backend.model)
    if backend.normalizer is not None:
        wary.normalizer = backend.normalizer
    if backend.pre_tokenizer is not None:
        wary.pre_tokenizer = backend.pre_tokenizer
    added = backend.get_added_tokens_decoder()
    wary.add_tokens([added[token_id] for token_id in sorted(added)])
    if wary.get_added_tokens_decoder().keys() != added.keys():
        wary = tokenizers.Tokenizer.from_str(backend.to_str())
    wary.encode_special_tokens = True
    return wary


def from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer in a GGUF file's metadata; raises TokenizerError with what is missing or not supported."""
    return Tokenizer(read_gguf_tokenizer(metadata))


def from_hf_folder(path: Path | str) -> Tokenizer:
    """The tokenizer of a Hugging Face folder (tokenizer.json or tokenizer.model); raises TokenizerError."""
    return Tokenizer(read_hf_tokenizer(Path(path)))
