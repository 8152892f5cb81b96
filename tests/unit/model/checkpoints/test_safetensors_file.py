from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andes_jax.model.checkpoints import CheckpointError
from andes_jax.model.checkpoints.safetensors_file import SafetensorsFile

TENSORS = {
    "a": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(5, dtype=np.float16),
    "c": np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3),
    "d": np.asarray(2.5),
}


@pytest.fixture
def path(tmp_path):
    safetensors.numpy.save_file(TENSORS, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path / "model.safetensors"


def test_tensors_are_what_the_library_wrote(path):
    file = SafetensorsFile(path)
    assert file.tensors.keys() == TENSORS.keys()
    for name, values in TENSORS.items():
        read = file.read(name)
        assert read.dtype == values.dtype and not read.flags.writeable
        np.testing.assert_array_equal(read, values)


def test_a_cut_file_says_what_it_has_and_needs(path):
    whole = path.read_bytes()
    for kept in range(len(whole)):
        path.write_bytes(whole[:kept])
        with pytest.raises(CheckpointError) as error:
            SafetensorsFile(path)
        message = str(error.value)
        assert message.startswith(f"{path}: ") and "\n" not in message
        if kept >= 8:
            assert f"file is cut: has {kept} bytes, needs " in message
    assert message.endswith(f"needs {len(whole)}")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_give_tensors_or_one_clear_line(data, tmp_path):
    path = tmp_path / "changed.safetensors"
    whole = bytearray(safetensors.numpy.save(TENSORS))
    header = 8 + struct.unpack_from("<Q", whole)[0]
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, header - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        file = SafetensorsFile(path)
        for name in file.tensors:
            file.read(name)
    except CheckpointError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, "tensor x has the wrong number of bytes"),
        ({"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, "its header cannot be read"),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, "its header cannot be read"),
        ({"x": {"dtype": "F32", "shape": [2]}}, "its header cannot be read"),
        ([1, 2], "its header cannot be read"),
    ],
)
def test_headers_that_make_no_sense(header, message, tmp_path):
    text = json.dumps(header).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(CheckpointError, match=message):
        SafetensorsFile(tmp_path / "m")


def test_a_quantised_tensor_is_refused_by_name(tmp_path):
    text = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(CheckpointError, match=r"tensor x is F8_E4M3, not supported \(supported: F64, F32, F16, BF16\)"):
        SafetensorsFile(tmp_path / "m").read("x")
