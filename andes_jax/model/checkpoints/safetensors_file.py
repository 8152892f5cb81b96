"""The safetensors container, mapped and checked against the file's size before a tensor is touched.

The safetensors package reports a cut file without saying how much of it is there, and has no bfloat16 in numpy.
"""

from __future__ import annotations

import json
import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from andes_jax.model.checkpoints.base import CheckpointError

_DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where one tensor lies in its file. The dtype is safetensors' name for it."""

    shape: tuple[int, ...]
    dtype: str
    start: int
    end: int


class SafetensorsFile:
    """One opened file. Raises CheckpointError when it is damaged; tensors are views of the mapped file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.stat().st_size < _LENGTH_BYTES:
                raise CheckpointError(f"{path}: not a safetensors file (only {path.stat().st_size} bytes)")
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
        self.tensors = self._directory()

    def read(self, name: str) -> np.ndarray:
        """A read-only view of one tensor. Raises CheckpointError for a dtype that is no plain float."""
        tensor = self.tensors[name]
        if tensor.dtype not in _DTYPES:
            supported = ", ".join(_DTYPES)
            raise CheckpointError(
                f"{self.path}: tensor {name} is {tensor.dtype}, not supported (supported: {supported})"
            )
        count = prod(tensor.shape)
        return np.frombuffer(self._data, _DTYPES[tensor.dtype], count, tensor.start).reshape(tensor.shape)

    def _directory(self) -> dict[str, StoredTensor]:
        size = len(self._data)
        header_end = _LENGTH_BYTES + struct.unpack_from("<Q", self._data, 0)[0]
        if header_end > size:
            raise CheckpointError(
                f"{self.path}: file is cut: has {size} bytes, needs {header_end} for its header alone"
            )
        try:
            header = json.loads(self._data[_LENGTH_BYTES:header_end])
            entries = {name: self._entry(entry, header_end) for name, entry in header.items() if name != "__metadata__"}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise CheckpointError(f"{self.path}: not a safetensors file (its header cannot be read)") from None
        needed = max((tensor.end for tensor in entries.values()), default=header_end)
        if needed > size:
            raise CheckpointError(f"{self.path}: file is cut: has {size} bytes, needs {needed}")
        for name, tensor in entries.items():
            item = _DTYPES[tensor.dtype].itemsize if tensor.dtype in _DTYPES else None
            if item is not None and tensor.end - tensor.start != prod(tensor.shape) * item:
                raise CheckpointError(f"{self.path}: tensor {name} has the wrong number of bytes for its shape")
        return entries

    @staticmethod
    def _entry(entry: dict[str, Any], header_end: int) -> StoredTensor:
        start, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if not all(type(number) is int and number >= 0 for number in (start, end, *shape)) or start > end:
            raise ValueError("offsets or shape that are no sizes")
        return StoredTensor(shape, str(entry["dtype"]), header_end + start, header_end + end)
