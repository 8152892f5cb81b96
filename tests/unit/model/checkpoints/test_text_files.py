from __future__ import annotations

import json

import pytest
import tokenizers

from andes_jax.model.checkpoints import CheckpointError
from andes_jax.model.checkpoints.text_files import (
    read_json,
    save_gguf_text,
    save_hf_text,
    template_from_folder,
    tokenizer_from_folder,
)

CONFIG = {
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "special": True},
    "tokenizer_class": "PreTrainedTokenizerFast",
}
CHAT = [{"role": "user", "content": "hi"}]


@pytest.fixture
def folder(tmp_path):
    """The tokenizer files of a Hugging Face folder."""
    pieces = {"<s>": 0, "</s>": 1, "h": 2, "i": 3, "hi": 4, "Ġ": 5}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(pieces, [("h", "i")]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>"])
    backend.save(str(tmp_path / "tokenizer.json"))
    write(tmp_path / "tokenizer_config.json", CONFIG)
    return tmp_path


def write(path, value) -> None:
    path.write_text(json.dumps(value), "utf-8")


def rendered(folder) -> str | None:
    template = template_from_folder(folder)
    return template and template.render(CHAT)


def test_the_tokenizer_of_a_folder_and_of_its_copy(folder, tmp_path_factory):
    assert tokenizer_from_folder(folder).encode("hi hi", add_special=False) == [4, 5, 4]
    copy = tmp_path_factory.mktemp("copy")
    write(folder / "generation_config.json", {"eos_token_id": [1, 0]})
    (folder / "model.safetensors").write_bytes(b"weights")
    save_hf_text(folder, copy)
    assert tokenizer_from_folder(copy).encode("hi", add_special=False) == [4]
    assert sorted(path.name for path in copy.iterdir()) == [
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_where_templates_are_looked_for(folder):
    assert rendered(folder) is None
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "list {{ eos_token }}"}]
    write(folder / "tokenizer_config.json", CONFIG | {"chat_template": named})
    assert rendered(folder) == "list </s>"
    write(folder / "tokenizer_config.json", CONFIG | {"chat_template": "config {{ bos_token }}"})
    assert rendered(folder) == "config <s>"
    write(folder / "chat_template.json", {"chat_template": "json {{ messages[0]['content'] }}"})
    assert rendered(folder) == "json hi"
    (folder / "chat_template.jinja").write_text("jinja 模型", "utf-8")
    assert rendered(folder) == "jinja 模型"


def test_a_template_that_is_not_valid(folder):
    write(folder / "tokenizer_config.json", CONFIG | {"chat_template": "{% if %}"})
    with pytest.raises(CheckpointError, match="the chat template is not valid") as error:
        template_from_folder(folder)
    assert str(error.value).startswith(f"{folder}: ")


def test_folders_without_a_tokenizer(tmp_path):
    with pytest.raises(CheckpointError) as error:
        tokenizer_from_folder(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}: ")
    assert template_from_folder(tmp_path) is None


def test_only_the_text_side_of_a_gguf_is_kept(tmp_path):
    save_gguf_text({"tokenizer.ggml.model": "gpt2", "general.name": "n", "llama.block_count": 3}, tmp_path)
    assert read_json(tmp_path / "gguf_metadata.json") == {"tokenizer.ggml.model": "gpt2", "general.name": "n"}


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not valid JSON"), ("[1]", "no JSON object"), ("[" * 10**5, "JSON")]
)
def test_json_that_is_none(text, message, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_json(tmp_path / "x.json")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_json(tmp_path / "missing.json")
