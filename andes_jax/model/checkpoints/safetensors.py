"""Hugging Face folders: config.json, one safetensors file or several, and the tokenizer's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from andes_jax.model.checkpoints.base import Checkpoint, CheckpointError, validate
from andes_jax.model.checkpoints.hf_config import spec_from_config
from andes_jax.model.checkpoints.safetensors_file import SafetensorsFile
from andes_jax.model.checkpoints.text_files import read_json, save_hf_text, template_from_folder, tokenizer_from_folder
from andes_jax.text.chat import ChatTemplate
from andes_jax.text.tokenizer import Tokenizer

CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_WHOLE = "model.safetensors"
_PREFIXES = ("model.language_model.", "language_model.model.", "language_model.", "model.")
# Parts of a checkpoint that a text decoder has no use for.
_LEFT_OUT = re.compile(r"(model\.)?(vision_tower|multi_modal_projector)\.|.*\.rotary_emb\.inv_freq$")


class HuggingFaceCheckpoint(Checkpoint):
    """A folder as transformers writes it. Raises CheckpointError when it is incomplete, damaged or unsupported."""

    def __init__(self, folder: Path) -> None:
        self.source = str(folder)
        self._folder = folder
        self.spec = spec_from_config(str(folder / CONFIG), read_json(folder / CONFIG))
        self._files = _open_files(folder)
        self._places: dict[str, tuple[SafetensorsFile, str]] = {}
        for file in self._files:
            for own in file.tensors:
                name = canonical_name(own)
                if name is not None and not (self.spec.tied and name == "lm_head.weight"):
                    self._places[name] = (file, own)
        shapes = {name: file.tensors[own].shape for name, (file, own) in self._places.items()}
        validate(self.source, self.spec, shapes)

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        gemma = self.spec.post_norms
        for name, (file, own) in self._places.items():
            values = file.read(own)
            if gemma and name.endswith("norm.weight"):
                # Gemma's files hold what is added to one; float32 as transformers adds it.
                values = np.float32(1) + values.astype(np.float32)
            yield name, values

    def tokenizer(self) -> Tokenizer:
        return tokenizer_from_folder(self._folder)

    def chat_template(self) -> ChatTemplate | None:
        return template_from_folder(self._folder)

    def save_tokenizer(self, folder: Path) -> None:
        save_hf_text(self._folder, folder)


def canonical_name(name: str) -> str | None:
    """The decoder's name of a tensor, None for one that a text decoder leaves out."""
    if _LEFT_OUT.match(name):
        return None
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _open_files(folder: Path) -> list[SafetensorsFile]:
    if (folder / _INDEX).is_file():
        return _open_shards(folder)
    if (folder / _WHOLE).is_file():
        return [SafetensorsFile(folder / _WHOLE)]
    others = sorted(each.name for pattern in ("*.bin", "*.pth", "*.safetensors") for each in folder.glob(pattern))
    found = f" (found {', '.join(others[:3])})" if others else ""
    raise CheckpointError(f"{folder}: holds neither {_WHOLE} nor {_INDEX}{found}")


def _open_shards(folder: Path) -> list[SafetensorsFile]:
    index = folder / _INDEX
    placed = read_json(index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError(f"{index}: weight_map is missing")
    shards = dict.fromkeys(str(shard) for shard in placed.values())
    for shard in shards:
        if Path(shard).name != shard:
            raise CheckpointError(f"{index}: {shard!r} is not the name of a file beside it")
        if not (folder / shard).is_file():
            raise CheckpointError(f"{folder / shard}: no such file, though {_INDEX} names it")
    files = [SafetensorsFile(folder / shard) for shard in shards]
    for file in files:
        promised = {name for name, shard in placed.items() if shard == file.path.name}
        if absent := sorted(promised - set(file.tensors)):
            raise CheckpointError(f"{file.path}: tensor {absent[0]} is missing, though {_INDEX} places it here")
    return files
