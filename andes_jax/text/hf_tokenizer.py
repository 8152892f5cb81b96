"""The tokenizer of a Hugging Face model folder: tokenizer.json, or else a SentencePiece tokenizer.model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from andes_jax.text.backends import sentencepiece_backend, sentencepiece_table
from andes_jax.text.sentencepiece_file import read_sentencepiece_file
from andes_jax.text.token_table import SPACE_MARK, TokenTable, byte_level_piece, sentencepiece_piece
from andes_jax.text.vocabulary import TokenizerError, TokenizerParts, TokenKind, Vocabulary

_LARGEST_VOCABULARY = 1 << 24  # a greater vocab_size in config.json is a fault, not padding


def read_hf_tokenizer(folder: Path) -> TokenizerParts:
    """Parts of the tokenizer; raises TokenizerError naming the file that is missing, damaged or not supported.

    Follows tokenizer_config.json (BOS, EOS and whether to add them), generation_config.json and config.json (what ends
    a reply, and the padded size of the vocabulary).
    """
    settings = _read_json(folder / "special_tokens_map.json") | _read_json(folder / "tokenizer_config.json")
    if (folder / "tokenizer.json").is_file():
        backend, table, unknown = _from_json(folder / "tokenizer.json")
        prefix, suffix = _added_around(backend)
    elif (folder / "tokenizer.model").is_file():
        backend, table, unknown = _from_sentencepiece(folder / "tokenizer.model", settings)
        prefix, suffix = [], []
        settings = {"add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>"} | settings
    else:
        raise TokenizerError("no tokenizer: neither tokenizer.json nor tokenizer.model is there")
    config = _read_json(folder / "config.json")
    config = config.get("text_config") or config
    bos = _token_id(backend, settings.get("bos_token"), config.get("bos_token_id"))
    eos = _token_id(backend, settings.get("eos_token"), None)
    prefix = _override(prefix, settings.get("add_bos_token"), bos)
    suffix = _override(suffix, settings.get("add_eos_token"), eos)
    specials = {index for index, token in backend.get_added_tokens_decoder().items() if token.special}
    endings = [*_ids(_read_json(folder / "generation_config.json")), *_ids(config), *([] if eos is None else [eos])]
    width = config.get("vocab_size")
    return TokenizerParts(
        backend=backend,
        table=table.padded(width) if isinstance(width, int) and width < _LARGEST_VOCABULARY else table,
        control_ids=frozenset(specials - {unknown}),
        bos_id=bos,
        eos_ids=tuple(dict.fromkeys(endings)),
        prefix_ids=tuple(prefix),
        suffix_ids=tuple(suffix),
    )


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object, empty when there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TokenizerError(f"{path.name}: not readable as JSON: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{path.name}: holds {type(value).__name__} where an object should be")
    return value


def _from_json(path: Path) -> tuple[Backend, TokenTable, int | None]:
    try:
        backend = Backend.from_file(str(path))
    except Exception as error:  # the library raises bare exceptions for every fault of the file
        raise TokenizerError(f"{path.name}: not a tokenizer: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    unknown = getattr(backend.model, "unk_token", None)
    return backend, _table(backend, path), backend.token_to_id(unknown) if isinstance(unknown, str) else None


def _table(backend: Backend, path: Path) -> TokenTable:
    steps = list(_decoder_steps(backend))
    names = {step["type"] for step in steps}
    added = backend.get_added_tokens_decoder()
    vocabulary = backend.get_vocab(with_added_tokens=True)
    pieces = [b""] * (max(vocabulary.values(), default=-1) + 1)
    special = set(range(len(pieces))) - set(vocabulary.values())
    special.update(index for index, token in added.items() if token.special)
    if "ByteLevel" in names:
        for token, index in vocabulary.items():
            pieces[index] = token.encode("utf-8") if index in added else byte_level_piece(token)
        return TokenTable(pieces, special)
    if not ("Metaspace" in names or any(_replaces_mark(step) for step in steps)):
        raise TokenizerError(f"{path.name}: decoder {sorted(names)} is neither byte-level nor SentencePiece")
    for token, index in vocabulary.items():
        pieces[index] = sentencepiece_piece(token)
    return TokenTable(pieces, special, strip_leading_space=any(_strips_space(step) for step in steps))


def _decoder_steps(backend: Backend) -> Iterator[dict[str, Any]]:
    if backend.decoder is None:
        return
    pending = [json.loads(backend.decoder.__getstate__())]
    while pending:
        step = pending.pop()
        pending.extend(step.get("decoders", []))
        yield step


def _replaces_mark(step: Mapping[str, Any]) -> bool:
    return step["type"] == "Replace" and step.get("pattern") == {"String": SPACE_MARK}


def _strips_space(step: Mapping[str, Any]) -> bool:
    if step["type"] == "Strip":
        return bool(step.get("content") == " " and step.get("start"))
    return step["type"] == "Metaspace" and step.get("prepend_scheme") != "never"


def _added_around(backend: Backend) -> tuple[list[int], list[int]]:
    """Ids that the file's post-processor puts before and after a text."""
    special = {index for index, token in backend.get_added_tokens_decoder().items() if token.special}
    for text in ("a", *backend.get_vocab(with_added_tokens=False)):
        plain = backend.encode(text, add_special_tokens=False).ids
        if plain and special.isdisjoint(plain):
            break
    else:
        return [], []
    whole = backend.encode(text, add_special_tokens=True).ids
    extra = len(whole) - len(plain)
    at = next((start for start in range(extra + 1) if whole[start : start + len(plain)] == plain), 0)
    return whole[:at], whole[at + len(plain) :]


def _from_sentencepiece(path: Path, settings: Mapping[str, Any]) -> tuple[Backend, TokenTable, int | None]:
    try:
        read = read_sentencepiece_file(path.read_bytes())
        vocabulary, scores = _with_added(read.vocabulary, read.scores, settings, path)
        backend = sentencepiece_backend(vocabulary, scores, add_space_prefix=read.add_space_prefix)
    except (OSError, TokenizerError) as error:
        raise TokenizerError(f"{path.name}: {error}") from error
    unknown = next(iter(vocabulary.ids_of(TokenKind.UNKNOWN)), None)
    return backend, sentencepiece_table(vocabulary, add_space_prefix=read.add_space_prefix), unknown


def _with_added(
    vocabulary: Vocabulary, scores: list[float], settings: Mapping[str, Any], path: Path
) -> tuple[Vocabulary, list[float]]:
    """The vocabulary with the tokens that the folder adds: `added_tokens_decoder`, or else added_tokens.json."""
    added = settings.get("added_tokens_decoder")
    if added is None:
        added = {index: {"content": token} for token, index in _read_json(path.with_name("added_tokens.json")).items()}
    tokens, kinds, scores = list(vocabulary.tokens), list(vocabulary.kinds), list(scores)
    for index, token in sorted((int(index), token) for index, token in added.items()):
        if index > len(tokens):
            raise TokenizerError(f"added token {token['content']!r} has id {index}, past the {len(tokens)} before it")
        if index == len(tokens):
            tokens.append(token["content"])
            kinds.append(TokenKind.CONTROL if token.get("special") else TokenKind.USER_DEFINED)
            scores.append(0.0)
    return Vocabulary(tokens, kinds), scores


def _token_id(backend: Backend, token: Any, otherwise: Any) -> int | None:
    content = token.get("content") if isinstance(token, dict) else token
    found = backend.token_to_id(content) if isinstance(content, str) else None
    if found is None and isinstance(otherwise, int):
        return otherwise
    return found


def _override(around: list[int], wanted: Any, token_id: int | None) -> list[int]:
    """What goes around a text once the settings' own word on this one token is heard."""
    if not isinstance(wanted, bool) or token_id is None or wanted == (token_id in around):
        return around
    return [token_id] if wanted else [index for index in around if index != token_id]


def _ids(config: Mapping[str, Any]) -> list[int]:
    value = config.get("eos_token_id")
    values = value if isinstance(value, list) else [value]
    return [index for index in values if isinstance(index, int)]
