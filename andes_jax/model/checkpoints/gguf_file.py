"""The GGUF container: metadata and tensor directory, read with every length checked against the file's size.

gguf.GGUFReader trusts the counts it finds (an array length of 2^60 keeps it busy for ever) and makes an object per
array element; a model server opens files it did not write, so the directory is read here, and only the
dequantisation is gguf's. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType
from gguf.quants import dequantize

from andes_jax.model.checkpoints.base import CheckpointError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS: dict[int, str] = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}
_MAX_DIMENSIONS = 4
_SMALLEST_KEY_VALUE = 8 + 4 + 1  # an empty key, its type, one byte
_SMALLEST_TENSOR_INFO = 8 + 4 + 4 + 8  # an empty name, no dimensions, type, offset


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One entry of the tensor directory; shape is in numpy's order, rows last dimension first stored."""

    name: str
    shape: tuple[int, ...]
    type: GGMLQuantizationType
    start: int  # byte in the file
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class GgufFile:
    """An opened GGUF whose directory fits the file. Tensors are mapped, not read."""

    path: Path
    metadata: dict[str, Any]  # key -> Python value, arrays as lists
    tensors: dict[str, GgufTensor]
    _bytes: np.ndarray = field(repr=False)  # uint8, the mapped file

    def read(self, name: str) -> np.ndarray:
        """Dequantise one tensor to float32. Raises KeyError for an unknown name."""
        tensor = self.tensors[name]
        raw = self._bytes[tensor.start : tensor.start + tensor.size]
        block, block_bytes = GGML_QUANT_SIZES[tensor.type]
        rows, width = tensor.shape[:-1], tensor.shape[-1]
        values = dequantize(raw.reshape(*rows, width // block * block_bytes), tensor.type)
        return np.asarray(values, np.float32).reshape(tensor.shape)


def open_gguf(path: Path) -> GgufFile:
    """Open a GGUF file and check that all its directory promises lies inside it. Raises CheckpointError."""
    try:
        size = path.stat().st_size
        if size == 0:
            raise CheckpointError(f"{path}: the file is empty")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    header = _Header(path, mapped)
    tensor_count, key_count = header.counts()
    metadata = header.metadata(key_count)
    directory = header.directory(tensor_count, metadata.get("general.alignment", 32))
    return GgufFile(path, metadata, directory, np.frombuffer(mapped, np.uint8))


@cache
def can_dequantise(kind: GGMLQuantizationType) -> bool:
    """Whether the gguf package turns this storage type into floats."""
    block_bytes = GGML_QUANT_SIZES[kind][1]
    try:
        dequantize(np.zeros((1, block_bytes), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


class _Header:
    """A cursor over the mapped file that refuses to leave it."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def fail(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {what}")

    def need(self, size: int, what: str) -> int:
        """Reserve so many bytes and return where they begin."""
        start, end = self.at, self.at + size
        if end > len(self.data):
            raise self.fail(f"file is cut: has {len(self.data)} bytes, needs at least {end} to hold {what}")
        self.at = end
        return start

    def number(self, form: str, what: str) -> int:
        return struct.unpack_from(form, self.data, self.need(struct.calcsize(form), what))[0]

    def text(self, what: str) -> str:
        size = self.number("<Q", what)
        start = self.need(size, what)
        try:
            return self.data[start : start + size].decode("utf-8")
        except UnicodeDecodeError:
            raise self.fail(f"{what} is not valid UTF-8") from None

    def counts(self) -> tuple[int, int]:
        if self.data[: len(_MAGIC)] != _MAGIC:
            raise self.fail("not a GGUF file (it does not begin with GGUF)")
        self.at = len(_MAGIC)
        version = self.number("<I", "the version")
        if version & 0xFFFF == 0:
            raise self.fail("big-endian GGUF files are not supported")
        if version not in _VERSIONS:
            raise self.fail(f"GGUF version {version} is not supported (supported: {', '.join(map(str, _VERSIONS))})")
        tensors, keys = self.number("<Q", "the tensor count"), self.number("<Q", "the metadata count")
        needed = self.at + keys * _SMALLEST_KEY_VALUE + tensors * _SMALLEST_TENSOR_INFO
        if needed > len(self.data):
            size = len(self.data)
            raise self.fail(
                f"file is cut: has {size} bytes, needs at least {needed} for {keys} keys, {tensors} tensors"
            )
        return tensors, keys

    def metadata(self, count: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for index in range(count):
            key = self.text(f"the name of metadata key {index}")
            if key in values:
                raise self.fail(f"metadata key {key} appears twice")
            values[key] = self.value(self.number("<I", f"metadata key {key}"), f"metadata key {key}")
        return values

    def value(self, kind: int, what: str) -> Any:
        if kind == GGUFValueType.STRING:
            return self.text(what)
        if kind == GGUFValueType.ARRAY:
            return self.array(what)
        return self.scalars(kind, 1, what)[0]

    def array(self, what: str) -> list[Any]:
        kind, count = self.number("<I", what), self.number("<Q", what)
        if kind == GGUFValueType.STRING:
            if self.at + 8 * count > len(self.data):
                self.need(8 * count, what)
            return [self.text(what) for _ in range(count)]
        return self.scalars(kind, count, what)

    def scalars(self, kind: int, count: int, what: str) -> list[Any]:
        if kind not in _SCALARS:
            raise self.fail(f"{what} has the unknown type {kind}")
        dtype = np.dtype(_SCALARS[kind])
        start = self.need(count * dtype.itemsize, what)
        return np.frombuffer(self.data, dtype, count, start).tolist()

    def directory(self, count: int, alignment: Any) -> dict[str, GgufTensor]:
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self.fail(f"general.alignment is {alignment!r}, not a power of two")
        places = [self.tensor_info(index) for index in range(count)]
        data_start = -(-self.at // alignment) * alignment
        tensors = {}
        for name, shape, kind, offset in places:
            block, block_bytes = GGML_QUANT_SIZES[kind]
            if not shape or shape[-1] % block:
                raise self.fail(f"tensor {name} has rows of {shape[-1:]} values, not whole blocks of {block}")
            if name in tensors:
                raise self.fail(f"tensor {name} appears twice")
            tensors[name] = GgufTensor(name, shape, kind, data_start + offset, prod(shape) // block * block_bytes)
        needed = max((tensor.start + tensor.size for tensor in tensors.values()), default=0)
        if needed > len(self.data):
            raise self.fail(f"file is cut: has {len(self.data)} bytes, needs {needed}")
        return tensors

    def tensor_info(self, index: int) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name = self.text(f"the name of tensor {index}")
        dimensions = self.number("<I", f"tensor {name}")
        if dimensions > _MAX_DIMENSIONS:
            raise self.fail(f"tensor {name} has {dimensions} dimensions")
        shape = tuple(self.number("<Q", f"the shape of tensor {name}") for _ in range(dimensions))[::-1]
        kind = self.number("<I", f"the type of tensor {name}")
        known = {int(each) for each in GGMLQuantizationType}
        if kind not in known or not can_dequantise(GGMLQuantizationType(kind)):
            label = GGMLQuantizationType(kind).name if kind in known else kind
            raise self.fail(f"tensor {name} is stored as {label}, which cannot be dequantised")
        return name, shape, GGMLQuantizationType(kind), self.number("<Q", f"the offset of tensor {name}")
