from __future__ import annotations

import socket
import time

import huggingface_hub
import pytest

from andes_jax.model.checkpoints import CheckpointError, open_checkpoint
from andes_jax.model.checkpoints.safetensors import HuggingFaceCheckpoint


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_an_id_without_a_network_is_refused_at_once(no_network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started = time.monotonic()
    with pytest.raises(CheckpointError) as error:
        open_checkpoint("nobody/no-such-model")
    assert time.monotonic() - started < 20
    message = str(error.value)
    assert "'nobody/no-such-model' cannot be fetched from Hugging Face: " in message
    assert message.startswith(f"{tmp_path / 'nobody' / 'no-such-model'}: no such file or folder")
    assert "\n" not in message


def test_an_id_opens_the_folder_that_was_fetched(golden, monkeypatch):
    asked = []

    def fetch(name, *, allow_patterns, ignore_patterns, **options):
        asked.append(name)
        assert "*.safetensors" in allow_patterns and "*.bin" not in allow_patterns
        return str(golden / "qwen3")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert isinstance(open_checkpoint("Qwen/Qwen3-0.6B"), HuggingFaceCheckpoint)
    assert asked == ["Qwen/Qwen3-0.6B"]


@pytest.mark.parametrize("source", ["model.gguf", "a/b/c", "/absolute/name", "folder/model.gguf", "../up", "a b/c"])
def test_what_is_no_id_is_never_looked_up(source, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def fetch(*arguments, **options):
        raise AssertionError("looked up")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(CheckpointError, match="no such file or folder"):
        open_checkpoint(source)
