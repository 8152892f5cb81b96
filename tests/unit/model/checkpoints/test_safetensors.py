from __future__ import annotations

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from andes_jax.model.checkpoints import CheckpointError, open_checkpoint
from andes_jax.model.checkpoints.safetensors import HuggingFaceCheckpoint


@pytest.fixture
def folder(golden, tmp_path):
    """A copy of a tiny untied Llama in a folder whose name has spaces and more."""
    return shutil.copytree(golden / "llama2", tmp_path / "my model ünï 模型")


def rewrite(folder, change) -> None:
    """Change the tensors of a folder in place."""
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    change(tensors)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def shard(folder) -> list[str]:
    """Split a folder's one file into two with an index."""
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    names = sorted(tensors)
    files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, held in files.items():
        safetensors.numpy.save_file({name: tensors[name] for name in held}, folder / file)
    placed = {name: file for file, held in files.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    (folder / "model.safetensors").unlink()
    return list(files)


def refused(folder) -> str:
    with pytest.raises(CheckpointError) as error:
        HuggingFaceCheckpoint(folder)
    assert str(error.value).startswith(str(folder)) and "\n" not in str(error.value)
    return str(error.value)


def test_tensors_lose_the_leading_model(folder):
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    read = dict(open_checkpoint(folder).tensors())
    assert set(read) == {name.removeprefix("model.") for name in stored}
    np.testing.assert_array_equal(read["lm_head.weight"], stored["lm_head.weight"])
    np.testing.assert_array_equal(read["norm.weight"], stored["model.norm.weight"])


def test_shards_read_like_one_file(folder):
    whole = dict(HuggingFaceCheckpoint(folder).tensors())
    shard(folder)
    shards = dict(HuggingFaceCheckpoint(folder).tensors())
    assert shards.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(shards[name], values)


def test_a_shard_that_is_missing_cut_or_not_what_the_index_says(folder):
    first, second = shard(folder)
    kept = (folder / second).read_bytes()
    (folder / second).unlink()
    assert f"{second}: no such file, though model.safetensors.index.json names it" in refused(folder)
    (folder / second).write_bytes(kept[:-1])
    assert f"{second}: file is cut: has {len(kept) - 1} bytes, needs {len(kept)}" in refused(folder)
    shutil.copyfile(folder / first, folder / second)
    assert f"{second}: tensor model.embed_tokens.weight is missing, though" in refused(folder)


@pytest.mark.parametrize("index", ["{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": "../x.safetensors"}}'])
def test_a_damaged_index(index, folder):
    shard(folder)
    (folder / "model.safetensors.index.json").write_text(index)
    assert "model.safetensors.index.json: " in refused(folder)


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model.", ""])
def test_prefixes_of_models_with_a_vision_tower(prefix, folder, golden):
    plain = dict(HuggingFaceCheckpoint(folder).tensors())

    def rename(tensors) -> None:
        for name in list(tensors):
            if name.startswith("model."):
                tensors[prefix + name.removeprefix("model.")] = tensors.pop(name)
        tensors["model.vision_tower.patch.weight"] = np.zeros(3, np.float32)
        tensors["multi_modal_projector.weight"] = np.zeros(3, np.float32)
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(3, np.float32)

    rewrite(folder, rename)
    renamed = dict(HuggingFaceCheckpoint(folder).tensors())
    assert renamed.keys() == plain.keys()


def test_a_tied_model_has_no_output_matrix_even_if_its_file_has(golden, tmp_path):
    folder = shutil.copytree(golden / "smollm2", tmp_path / "tied")
    rewrite(folder, lambda tensors: tensors.update({"lm_head.weight": np.ones((128, 32), np.float32)}))
    checkpoint = HuggingFaceCheckpoint(folder)
    assert checkpoint.spec.tied
    assert "lm_head.weight" not in dict(checkpoint.tensors())


def test_gemma_norms_become_multipliers_in_float32(golden, tmp_path):
    folder = shutil.copytree(golden / "gemma3", tmp_path / "gemma")

    def halve(tensors) -> None:
        tensors.update({name: values.astype(ml_dtypes.bfloat16) for name, values in tensors.items()})

    rewrite(folder, halve)
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    read = dict(HuggingFaceCheckpoint(folder).tensors())
    for name in ("norm.weight", "layers.0.self_attn.k_norm.weight", "layers.6.post_feedforward_layernorm.weight"):
        assert read[name].dtype == np.float32
        np.testing.assert_array_equal(read[name], 1 + stored[f"model.{name}"].astype(np.float32))
    assert read["layers.0.self_attn.q_proj.weight"].dtype == ml_dtypes.bfloat16


def test_weights_that_do_not_fit_the_config(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    assert "tensors layers.3.input_layernorm.weight" in (message := refused(folder))
    assert "and 6 more are missing, of 39 tensors this model needs" in message
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    assert "not part of a llama model" in refused(folder)
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 130}))
    assert "tensor embed_tokens.weight has shape [128, 32], needs [130, 32]" in refused(folder)


def test_a_folder_without_safetensors_says_what_it_found(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "holds neither model.safetensors nor" in (message := refused(folder))
    assert "found pytorch_model.bin" in message


def test_a_cut_file_and_a_damaged_config(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-5])
    assert f"has {len(whole) - 5} bytes, needs {len(whole)}" in refused(folder)
    (folder / "config.json").write_text('{"model_type": ')
    assert "config.json: not valid JSON" in refused(folder)
