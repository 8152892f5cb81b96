"""The GGUF container: right where gguf's own reader is, and one clear line for every damaged file."""

from __future__ import annotations

import struct
import time

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andes_jax.model.checkpoints import CheckpointError
from andes_jax.model.checkpoints.gguf import GgufCheckpoint
from andes_jax.model.checkpoints.gguf_file import can_dequantise, open_gguf
from tests.gguf_files import random_tensors, write_gguf


@pytest.fixture(scope="module")
def whole(small_spec, tmp_path_factory) -> bytes:
    """A valid file with tokenizer and quantised matrices."""
    path = tmp_path_factory.mktemp("whole") / "model.gguf"
    write_gguf(path, small_spec, random_tensors(small_spec), matrices=GGMLQuantizationType.Q8_0)
    return path.read_bytes()


@pytest.fixture(scope="module")
def directory_end(whole, tmp_path_factory) -> int:
    path = tmp_path_factory.mktemp("end") / "model.gguf"
    path.write_bytes(whole)
    return gguf.GGUFReader(path).data_offset


def refused(path) -> str:
    """The message with which a file is refused, after checking its form."""
    started = time.monotonic()
    with pytest.raises(CheckpointError) as error:
        GgufCheckpoint(path)
    assert time.monotonic() - started < 5
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message


def test_metadata_and_tensors_are_those_of_ggufs_own_reader(whole, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(whole)
    file, reference = open_gguf(path), gguf.GGUFReader(path)
    fields = {key: field for key, field in reference.fields.items() if not key.startswith("GGUF.")}
    assert file.metadata == {key: field.contents() for key, field in fields.items()}
    assert list(file.tensors) == [tensor.name for tensor in reference.tensors]
    for tensor in reference.tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(file.read(tensor.name), expected)


def test_every_type_that_gguf_dequantises_is_readable(small_spec, tmp_path):
    readable = [kind for kind in GGMLQuantizationType if can_dequantise(kind)]
    assert {kind.name for kind in readable} >= {"F32", "F16", "BF16", "Q4_0", "Q4_K", "Q6_K", "Q8_0", "IQ4_XS", "MXFP4"}
    for kind in readable:
        width = 256
        writer = gguf.GGUFWriter(tmp_path / kind.name, "llama")
        block, size = gguf.GGML_QUANT_SIZES[kind]
        writer.add_tensor("x", np.zeros((3, width // block * size), np.uint8), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        values = open_gguf(tmp_path / kind.name).read("x")
        assert values.shape == (3, width) and values.dtype == np.float32 and np.isfinite(values).all()


def test_a_type_that_cannot_be_dequantised_is_named(small_spec, tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m", "llama")
    writer.add_tensor("blk.0.x", np.zeros((4, 4), np.int8))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "tensor blk.0.x is stored as I8, which cannot be dequantised" in refused(tmp_path / "m")


def test_a_file_cut_in_its_weights_says_what_it_has_and_needs(whole, tmp_path):
    path = tmp_path / "cut model ü.gguf"
    for kept in (len(whole) - 33, len(whole) // 2):
        path.write_bytes(whole[:kept])
        needed = int(refused(path).removeprefix(f"{path}: file is cut: has {kept} bytes, needs "))
        assert len(whole) - 32 < needed <= len(whole)  # the file ends in padding to 32 bytes


def test_a_file_cut_in_its_directory(whole, directory_end, tmp_path):
    path = tmp_path / "model.gguf"
    for kept in (*range(0, 64), *range(64, directory_end, 97)):
        path.write_bytes(whole[:kept])
        message = refused(path)
        assert "cut" in message or kept < 4, message


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_give_a_model_or_one_clear_line(data, whole, directory_end, tmp_path):
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, directory_end - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(changed[: data.draw(st.sampled_from([len(whole), len(whole) - 200]))]))
    started = time.monotonic()
    try:
        GgufCheckpoint(path)
    except CheckpointError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("count", [2**63, 2**40, 10**6])
def test_an_array_longer_than_the_file_neither_hangs_nor_fills_memory(count, tmp_path):
    path = tmp_path / "model.gguf"
    for kind in (0, 8, 12):  # bytes, strings, doubles
        key = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, kind, count)
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + b"\0" * 64)
        assert "needs at least" in refused(path)


def test_arrays_in_arrays_are_refused_whatever_their_depth(tmp_path):
    path = tmp_path / "model.gguf"
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 20000
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key)
    assert "unknown type 9" in refused(path)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04" + bytes(40), "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1 is not supported"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0), "needs at least"),
    ],
)
def test_what_is_no_gguf(head, message, tmp_path):
    (tmp_path / "model.gguf").write_bytes(head)
    assert message in refused(tmp_path / "model.gguf")


def test_a_shape_too_large_for_the_file(whole, tmp_path):
    name = b"output_norm.weight"
    at = whole.index(name) + len(name) + 4
    (tmp_path / "m").write_bytes(whole[:at] + struct.pack("<Q", 2**61) + whole[at + 8 :])
    assert "file is cut" in refused(tmp_path / "m")
