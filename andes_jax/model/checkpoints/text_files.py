"""The text side of a checkpoint: its tokenizer and chat template, from GGUF metadata or from Hugging Face's files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from andes_jax.model.checkpoints.base import CheckpointError
from andes_jax.text.chat import ChatTemplate, TemplateError
from andes_jax.text.tokenizer import Tokenizer, TokenizerError, from_gguf, from_hf_folder

GGUF_METADATA = "gguf_metadata.json"
_HF_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
)
_GGUF_TEMPLATE = "tokenizer.chat_template"
_GGUF_TEXT_KEYS = ("tokenizer.", "general.")


def tokenizer_from_gguf(source: str, metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer in a GGUF's metadata. Raises CheckpointError."""
    try:
        return from_gguf(metadata)
    except TokenizerError as error:
        raise CheckpointError(f"{source}: {error}") from error


def template_from_gguf(source: str, metadata: Mapping[str, Any]) -> ChatTemplate | None:
    """The chat template in a GGUF's metadata, None where it has none. Raises CheckpointError."""
    template = metadata.get(_GGUF_TEMPLATE)
    if not template:
        return None
    tokenizer = tokenizer_from_gguf(source, metadata)
    return _template(
        source, template, tokenizer.text_of(tokenizer.bos_id), tokenizer.text_of(_first(tokenizer.eos_ids))
    )


def save_gguf_text(metadata: Mapping[str, Any], folder: Path) -> None:
    """Keep what tokenizer and template need of a GGUF's metadata."""
    kept = {key: value for key, value in metadata.items() if key.startswith(_GGUF_TEXT_KEYS)}
    (folder / GGUF_METADATA).write_text(json.dumps(kept, ensure_ascii=False), "utf-8")


def tokenizer_from_folder(folder: Path) -> Tokenizer:
    """The tokenizer in a Hugging Face folder, or in one that save_gguf_text filled. Raises CheckpointError."""
    if (folder / GGUF_METADATA).exists():
        return tokenizer_from_gguf(str(folder), read_json(folder / GGUF_METADATA))
    try:
        return from_hf_folder(folder)
    except TokenizerError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def template_from_folder(folder: Path) -> ChatTemplate | None:
    """The chat template of such a folder, None where it has none. Raises CheckpointError."""
    if (folder / GGUF_METADATA).exists():
        return template_from_gguf(str(folder), read_json(folder / GGUF_METADATA))
    config = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    template = _hf_template(folder, config)
    if not template:
        return None
    return _template(str(folder), template, _token_text(config.get("bos_token")), _token_text(config.get("eos_token")))


def save_hf_text(source: Path, folder: Path) -> None:
    """Copy the tokenizer files of a Hugging Face folder."""
    for name in _HF_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object. Raises CheckpointError naming the file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds no JSON object")
    return value


def _hf_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """chat_template.jinja, chat_template.json or tokenizer_config.json, in transformers' order."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text("utf-8")
    found = config.get("chat_template")
    if (folder / "chat_template.json").is_file():
        found = read_json(folder / "chat_template.json").get("chat_template")
    if isinstance(found, list):  # several named templates
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _template(source: str, template: str, bos: str, eos: str) -> ChatTemplate:
    try:
        return ChatTemplate(template, bos, eos)
    except TemplateError as error:
        raise CheckpointError(f"{source}: the chat template is not valid: {error}") from error


def _token_text(token: Any) -> str:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def _first(ids: tuple[int, ...]) -> int | None:
    return ids[0] if ids else None
