from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from andes_jax.model.checkpoints import CheckpointError, open_checkpoint, orbax, write_orbax
from andes_jax.model.checkpoints.orbax import OrbaxCheckpoint
from tests.gguf_files import SPECIAL, random_tensors, write_gguf


@pytest.fixture(scope="module")
def source(small_spec, tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "model.gguf"
    write_gguf(path, small_spec, random_tensors(small_spec))
    return open_checkpoint(path)


@pytest.fixture(scope="module")
def converted(source, tmp_path_factory):
    """A folder in bfloat16; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("converted") / "in a folder 模型"
    write_orbax(source, folder, "bfloat16")
    return folder


@pytest.mark.parametrize("family", ["qwen2.5-yarn", "gemma3-linear"])
def test_float32_comes_back_bit_for_bit_with_its_spec(family, golden, tmp_path):
    folder = open_checkpoint(golden / family)
    write_orbax(folder, tmp_path / "out", "float32")
    back = open_checkpoint(tmp_path / "out")
    assert isinstance(back, OrbaxCheckpoint)
    assert back.spec == folder.spec
    read = dict(back.tensors())
    expected = dict(folder.tensors())
    assert read.keys() == expected.keys()
    for name, values in expected.items():
        assert read[name].dtype == np.float32
        np.testing.assert_array_equal(read[name], values)


def test_matrices_take_the_dtype_and_vectors_stay_float32(source, converted):
    read = dict(open_checkpoint(converted).tensors())
    for name, values in source.tensors():
        wanted = values.astype(np.float32 if values.ndim == 1 else ml_dtypes.bfloat16)
        assert read[name].dtype == wanted.dtype
        np.testing.assert_array_equal(read[name], wanted)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_arrays_are_the_same_from_either_kind_of_checkpoint(dtype, source, tmp_path):
    write_orbax(source, tmp_path / "out", "float32")
    direct, restored = dict(source.arrays(dtype)), dict(open_checkpoint(tmp_path / "out").arrays(dtype))
    assert direct.keys() == restored.keys()
    for name, array in direct.items():
        assert isinstance(restored[name], jax.Array) and restored[name].dtype == array.dtype == dtype
        np.testing.assert_array_equal(np.asarray(restored[name]), np.asarray(array))


def test_arrays_are_placed_where_the_caller_says(source, converted):
    mesh = jax.make_mesh((1,), ("model",))

    def sharding(name, shape):
        spec = jax.sharding.PartitionSpec("model") if len(shape) == 2 else jax.sharding.PartitionSpec()
        return jax.sharding.NamedSharding(mesh, spec)

    for checkpoint in (source, open_checkpoint(converted)):
        for name, array in checkpoint.arrays(jnp.float32, sharding):
            assert array.sharding == sharding(name, array.shape)


SHARDED = """
import sys
import jax, jax.numpy as jnp, numpy as np
from andes_jax.model.checkpoints import open_checkpoint

mesh = jax.make_mesh((4,), ("model",))
def sharding(name, shape):
    parts = ("model",) if len(shape) == 2 else ()
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*parts))

whole = dict(open_checkpoint(sys.argv[1]).arrays(jnp.float32))
for name, array in open_checkpoint(sys.argv[1]).arrays(jnp.float32, sharding):
    share = 4 if array.ndim == 2 else 1
    assert len(array.addressable_shards) == 4
    assert all(each.data.shape[0] == array.shape[0] // share for each in array.addressable_shards)
    np.testing.assert_array_equal(np.asarray(array), np.asarray(whole[name]))
print("restored", len(whole))
"""


def test_a_restore_over_four_devices(converted):
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SHARDED, str(converted)]
    root = Path(__file__).parents[4]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root, timeout=120)
    assert done.stdout == "restored 21\n", done.stderr


def test_tokenizer_and_template_work_from_the_folder_alone(source, converted, tmp_path):
    moved = shutil.copytree(converted, tmp_path / "moved")
    checkpoint = open_checkpoint(moved)
    text = "hello there"
    ids = source.tokenizer().encode(text, add_special=False)
    assert checkpoint.tokenizer().encode(text, add_special=False) == ids
    template = checkpoint.chat_template()
    assert template is not None
    assert template.render([{"role": "user", "content": "hi"}]) == f"{SPECIAL[0]}hi{SPECIAL[1]}"
    write_orbax(checkpoint, tmp_path / "again", "float16")
    assert open_checkpoint(tmp_path / "again").tokenizer().encode(text, add_special=False) == ids


def test_a_destination_in_use_is_refused_and_left_alone(source, tmp_path):
    folder = tmp_path / "used"
    folder.mkdir()
    (folder / "note").write_text("mine")
    for destination in (folder, folder / "note"):
        with pytest.raises(CheckpointError, match="already exists and is not an empty folder"):
            write_orbax(source, destination, "float32")
    assert [path.name for path in tmp_path.iterdir()] == ["used"]
    assert (folder / "note").read_text() == "mine"


def test_an_empty_destination_is_filled(source, tmp_path):
    (tmp_path / "empty").mkdir()
    write_orbax(source, tmp_path / "empty", "bfloat16")
    assert open_checkpoint(tmp_path / "empty").spec == source.spec


def test_a_write_that_fails_leaves_nothing(source, tmp_path, monkeypatch):
    def fails(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source, "save_tokenizer", fails, raising=True)
    with pytest.raises(CheckpointError, match="out: cannot be written: No space left on device"):
        write_orbax(source, tmp_path / "out", "bfloat16")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_dtype_is_refused(source, tmp_path):
    with pytest.raises(CheckpointError, match=r"dtype 'int8' is not supported \(supported: float32, bfloat16"):
        write_orbax(source, tmp_path / "out", "int8")


def refused(folder) -> str:
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(folder)
    assert str(error.value).startswith(str(folder)) and "\n" not in str(error.value)
    return str(error.value)


def test_every_weight_file_that_is_cut_or_gone_is_named(converted, tmp_path):
    folder = shutil.copytree(converted, tmp_path / "damaged")
    files = [path for path in (folder / "weights").rglob("*") if path.is_file()]
    for path in files:
        kept = path.read_bytes()
        path.write_bytes(kept + b"x")
        assert f"{path}: file is cut or changed: has {len(kept) + 1} bytes, needs {len(kept)}" in refused(folder)
        path.unlink()
        assert f"{path}: no such file" in refused(folder)
        path.write_bytes(kept)
    open_checkpoint(folder)


def test_weights_overwritten_in_place_end_in_one_line(converted, tmp_path):
    folder = shutil.copytree(converted, tmp_path / "damaged")
    for path in (folder / "weights").rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff" * path.stat().st_size)
    assert "weights: cannot be restored: " in refused(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format=2), "format 2 is not supported (supported: 1)"),
        (lambda d: d.pop("spec"), "damaged: 'spec'"),
        (lambda d: d["spec"].pop("hidden"), "damaged: incomplete spec"),
        (lambda d: d["spec"].update(colour=1), "damaged: unknown spec fields colour"),
        (lambda d: d["spec"].update(layers=3), "and 6 more are missing"),
        (lambda d: d["spec"].update(vocab=99), "tensor embed_tokens.weight has shape [128, 64], needs [99, 64]"),
        (lambda d: d.update(files=[1]), "damaged"),
    ],
)
def test_a_description_that_does_not_fit(change, message, converted, tmp_path):
    folder = shutil.copytree(converted, tmp_path / "changed")
    description = json.loads((folder / orbax.DESCRIPTION).read_text())
    change(description)
    (folder / orbax.DESCRIPTION).write_text(json.dumps(description))
    assert message in refused(folder)
