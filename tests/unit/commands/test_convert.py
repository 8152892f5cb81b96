"""andes_jax.commands.convert: the type of the written weights, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import andes_jax.model.checkpoints
from andes_jax.cli import app


@pytest.fixture
def written(monkeypatch):
    """Convert without a model: what would have been written, as (target, dtype)."""
    calls = []

    def write_orbax(checkpoint, target, dtype):
        target.mkdir()
        (target / "weights").write_bytes(bytes(2048))
        calls.append((target.name, dtype))

    monkeypatch.setattr(andes_jax.model.checkpoints, "write_orbax", write_orbax)
    return calls


def source_of(monkeypatch, dtype):
    tensors = [("norm.weight", np.ones(4, np.float32)), ("embed_tokens.weight", np.ones((2, 4), dtype))]
    checkpoint = SimpleNamespace(tensors=lambda: iter(tensors))
    monkeypatch.setattr(andes_jax.model.checkpoints, "open_checkpoint", lambda source: checkpoint)


@pytest.mark.parametrize(
    ("stored", "flags", "kept"),
    [
        (np.float32, [], "float32"),
        (ml_dtypes.bfloat16, [], "bfloat16"),
        (np.float16, [], "float16"),
        (np.float32, ["--dtype", "bfloat16"], "bfloat16"),
    ],
)
def test_the_type_of_the_source_is_kept_unless_told(monkeypatch, tmp_path, written, stored, flags, kept):
    source_of(monkeypatch, stored)
    result = CliRunner().invoke(app, ["convert", "m.gguf", str(tmp_path / "out"), *flags])
    assert result.exit_code == 0, result.exception
    assert written == [("out", kept)]
    assert "2.0 KiB" in result.output and kept in result.output


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path, embedded_gguf):
    (tmp_path / "precious").write_text("data")
    result = CliRunner().invoke(app, ["convert", str(embedded_gguf), str(tmp_path)])
    assert "not an empty folder" in str(result.exception)
    assert (tmp_path / "precious").read_text() == "data"
