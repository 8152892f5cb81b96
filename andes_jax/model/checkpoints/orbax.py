"""andes-jax's own checkpoints: weights in Orbax, the spec as JSON, and the tokenizer's files beside them.

A folder holds checkpoint.json (format, spec, dtype, and the size of every weight file), weights/ (an Orbax PyTree of
canonical names) and tokenizer/. It is restored straight into device arrays, each in its own sharding.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from jax.typing import DTypeLike

from andes_jax.model.checkpoints.base import Checkpoint, CheckpointError, ShardingOf, validate
from andes_jax.model.checkpoints.text_files import read_json, template_from_folder, tokenizer_from_folder
from andes_jax.model.spec import spec_from_json, spec_to_json
from andes_jax.text.chat import ChatTemplate
from andes_jax.text.tokenizer import Tokenizer

DESCRIPTION = "checkpoint.json"
_FORMAT = 1
_WEIGHTS = "weights"
_TOKENIZER = "tokenizer"
_WRITE_BUFFERS_GB = 8
_DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}


def write_orbax(source: Checkpoint, destination: Path, dtype: str) -> None:
    """Write a checkpoint with its matrices in dtype ("float32", "bfloat16", "float16"); vectors stay float32.

    The destination appears whole or not at all; one that exists and is not empty is refused. Holds the weights once,
    and up to twice their size again (at most _WRITE_BUFFERS_GB) while Orbax compresses them. Raises CheckpointError.
    """
    if dtype not in _DTYPES:
        raise CheckpointError(f"{destination}: dtype {dtype!r} is not supported (supported: {', '.join(_DTYPES)})")
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise CheckpointError(f"{destination}: already exists and is not an empty folder")
    partial = destination.parent / f".{destination.name}.partial-{uuid.uuid4().hex}"
    try:
        partial.mkdir(parents=True)
        _write(source, partial, dtype)
        partial.replace(destination)
    except OSError as error:
        raise CheckpointError(f"{destination}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(source: Checkpoint, folder: Path, dtype: str) -> None:
    weights = {}
    for name, values in source.tensors():
        weights[name] = np.asarray(values, np.float32 if values.ndim == 1 else _DTYPES[dtype])
    handler = ocp.PyTreeCheckpointHandler(save_concurrent_gb=_WRITE_BUFFERS_GB)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save((folder / _WEIGHTS).absolute(), args=ocp.args.PyTreeSave(weights))
    (folder / _TOKENIZER).mkdir()
    source.save_tokenizer(folder / _TOKENIZER)
    files = sorted(path for path in (folder / _WEIGHTS).rglob("*") if path.is_file())
    description = {
        "format": _FORMAT,
        "source": source.source,
        "dtype": dtype,
        "spec": spec_to_json(source.spec),
        "files": {path.relative_to(folder).as_posix(): path.stat().st_size for path in files},
    }
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=1), "utf-8")


class OrbaxCheckpoint(Checkpoint):
    """A folder that write_orbax made. Raises CheckpointError when it is incomplete or damaged."""

    def __init__(self, folder: Path) -> None:
        self.source = str(folder)
        self._folder = folder
        description = read_json(folder / DESCRIPTION)
        if description.get("format") != _FORMAT:
            supported = f"format {description.get('format')!r} is not supported (supported: {_FORMAT})"
            raise CheckpointError(f"{folder / DESCRIPTION}: {supported}")
        try:
            self.spec = spec_from_json(description["spec"])
            _check_files(folder, description["files"])
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{folder / DESCRIPTION}: damaged: {error}") from error
        self._metadata = self._read_metadata()
        validate(self.source, self.spec, {name: tuple(each.shape) for name, each in self._metadata.items()})

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        for names in _by_layer(list(self._metadata)):
            arguments = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
            yield from self._restore(arguments).items()

    def arrays(self, dtype: DTypeLike, sharding: ShardingOf | None = None) -> Iterator[tuple[str, jax.Array]]:
        local = jnp.zeros((), device=jax.local_devices()[0]).sharding  # jax 0.12.1 renamed what makes one
        arguments = {}
        for name, each in self._metadata.items():
            shape = tuple(each.shape)
            target = local if sharding is None else sharding(name, shape)
            arguments[name] = ocp.ArrayRestoreArgs(sharding=target, global_shape=shape, dtype=dtype)
        restored = self._restore(arguments)
        while restored:  # handed over one by one, so that the caller alone keeps them alive
            yield restored.popitem()

    def tokenizer(self) -> Tokenizer:
        return tokenizer_from_folder(self._folder / _TOKENIZER)

    def chat_template(self) -> ChatTemplate | None:
        return template_from_folder(self._folder / _TOKENIZER)

    def save_tokenizer(self, folder: Path) -> None:
        shutil.copytree(self._folder / _TOKENIZER, folder, dirs_exist_ok=True)

    def _read_metadata(self) -> dict[str, Any]:
        try:
            with ocp.PyTreeCheckpointer() as checkpointer:
                return dict(checkpointer.metadata((self._folder / _WEIGHTS).absolute()).item_metadata.tree)
        except Exception as error:  # Orbax and TensorStore raise whatever their storage layers raise
            raise self._damaged(error) from error

    def _restore(self, arguments: dict[str, ocp.RestoreArgs]) -> dict[str, Any]:
        wanted = {name: self._metadata[name] for name in arguments}
        restore = ocp.args.PyTreeRestore(item=wanted, restore_args=arguments, partial_restore=True)
        try:
            with ocp.PyTreeCheckpointer() as checkpointer:
                return dict(checkpointer.restore((self._folder / _WEIGHTS).absolute(), args=restore))
        except Exception as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> CheckpointError:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return CheckpointError(f"{self._folder / _WEIGHTS}: cannot be restored: {reason}")


def _check_files(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path}: no such file, though {DESCRIPTION} names it")
        if (found := path.stat().st_size) != size:
            raise CheckpointError(f"{path}: file is cut or changed: has {found} bytes, needs {size}")


def _by_layer(names: list[str]) -> list[list[str]]:
    """Groups of names small enough to hold at once: a layer, or a tensor outside the layers."""
    groups: dict[str, list[str]] = {}
    for name in names:
        key = ".".join(name.split(".")[:2]) if name.startswith("layers.") else name
        groups.setdefault(key, []).append(name)
    return list(groups.values())
