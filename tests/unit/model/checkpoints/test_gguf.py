from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from andes_jax.model.checkpoints import CheckpointError, open_checkpoint
from andes_jax.model.checkpoints.gguf import GgufCheckpoint, canonical_name, half_split_rows
from tests.gguf_files import SPECIAL, interleaved_rows, random_tensors, write_gguf

# What GGUF says of each golden model's RoPE, where it can say it.
ROPE_KEYS = {
    "llama2": {},
    "smollm2": {"rope.freq_base": 100000.0},
    "llama-linear": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    "mistral": {},
    "qwen2": {"rope.freq_base": 100000.0},
    "qwen2.5-yarn": {
        "rope.freq_base": 1000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32,
        "rope.scaling.yarn_beta_fast": 4.0,
        "rope.scaling.yarn_beta_slow": 1.0,
    },
    "qwen3": {"rope.freq_base": 100000.0},
    "gemma2": {},
    "gemma3": {"rope.freq_base": 10000.0, "rope.freq_base_swa": 100.0},
    "gemma3-linear": {"rope.freq_base_swa": 100.0, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
}


@pytest.mark.parametrize("family", ROPE_KEYS)
def test_a_family_read_from_gguf_is_the_one_read_from_its_folder(family, golden, tmp_path):
    folder = open_checkpoint(golden / family)
    tensors = dict(folder.tensors())
    write_gguf(tmp_path / "model.gguf", folder.spec, tensors, keys=ROPE_KEYS[family])

    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")

    expected = folder.spec
    if family == "mistral":
        expected = replace(expected, family="llama")
    if family.startswith("gemma"):  # GGUF cannot say what scores are divided by; llama.cpp takes the head size
        expected = replace(expected, attention_scale=expected.head_dim**-0.5)
    assert checkpoint.spec == expected
    read = dict(checkpoint.tensors())
    assert read.keys() == tensors.keys()
    for name, values in tensors.items():
        np.testing.assert_array_equal(read[name], values, err_msg=name)


def test_llama3_rope_factors(golden, tmp_path):
    folder = open_checkpoint(golden / "llama3")
    base = np.float32(500.0) ** -(np.arange(0, 16, 2, dtype=np.float32) / np.float32(16))
    factors = base / np.asarray(folder.spec.rope.inverse_frequencies, np.float32)
    write_gguf(
        tmp_path / "model.gguf",
        folder.spec,
        dict(folder.tensors()),
        keys={"rope.freq_base": 500.0},
        rope_factors=factors,
    )
    rope = GgufCheckpoint(tmp_path / "model.gguf").spec.rope
    np.testing.assert_allclose(rope.inverse_frequencies, folder.spec.rope.inverse_frequencies, rtol=3e-7)
    assert rope.inverse_frequencies[-1] < base[-1] / 7  # the factors were used


@pytest.mark.parametrize(
    ("kind", "largest_error"),
    [
        (GGMLQuantizationType.F16, 0.002),
        (GGMLQuantizationType.BF16, 0.02),
        (GGMLQuantizationType.Q8_0, 0.02),
        (GGMLQuantizationType.Q4_1, 0.3),
    ],
)
def test_quantised_matrices_come_back_in_float32(kind, largest_error, small_spec, tmp_path):
    tensors = random_tensors(small_spec)
    write_gguf(tmp_path / "model.gguf", small_spec, tensors, matrices=kind)
    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")
    assert checkpoint.spec == small_spec
    for name, values in checkpoint.tensors():
        assert values.dtype == np.float32
        error = np.abs(values - tensors[name]).max()
        assert error == 0 if values.ndim == 1 else 0 < error < largest_error, name


def test_query_rows_of_llama_are_put_back_in_half_split_order():
    rows = np.arange(16, dtype=np.float32).reshape(16, 1)  # two heads of eight
    stored = interleaved_rows(rows, 2)
    assert stored[:4, 0].tolist() == [0, 4, 1, 5]
    np.testing.assert_array_equal(half_split_rows(stored, 2), rows)
    np.testing.assert_array_equal(half_split_rows(stored[:, 0], 2), rows[:, 0])  # a bias


def test_biases_of_a_llama_are_found_and_reordered(small_spec, tmp_path):
    spec = replace(small_spec, attention_bias=True)
    tensors = random_tensors(spec)
    write_gguf(tmp_path / "model.gguf", spec, tensors)
    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")
    assert checkpoint.spec.attention_bias
    name = "layers.1.self_attn.k_proj.bias"
    np.testing.assert_array_equal(dict(checkpoint.tensors())[name], tensors[name])


def test_names():
    assert canonical_name("blk.12.ffn_norm.weight", gemma=False) == "layers.12.post_attention_layernorm.weight"
    assert canonical_name("blk.12.ffn_norm.weight", gemma=True) == "layers.12.pre_feedforward_layernorm.weight"
    assert canonical_name("blk.0.ffn_gate_exps.weight", gemma=False) == "blk.0.ffn_gate_exps.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("layers.1.mlp.up_proj.weight"), "tensor layers.1.mlp.up_proj.weight is missing"),
        (lambda t: [t.pop(n) for n in list(t) if n.startswith("layers.1.")], "and 6 more are missing, of 21"),
        (lambda t: t.update({"norm.weight": t["norm.weight"][:32]}), "norm.weight has shape [32], needs [64]"),
        (lambda t: t.update({"norm.bias": t["norm.weight"]}), "tensor output_norm.bias is not part of a llama model"),
    ],
)
def test_tensors_that_do_not_fit_the_metadata(change, message, small_spec, tmp_path):
    tensors = random_tensors(small_spec)
    change(tensors)
    write_gguf(tmp_path / "model.gguf", small_spec, tensors)
    with pytest.raises(CheckpointError) as error:
        GgufCheckpoint(tmp_path / "model.gguf")
    assert str(tmp_path / "model.gguf") in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_tokenizer_and_template_come_from_the_file(small_spec, tmp_path):
    write_gguf(tmp_path / "model.gguf", small_spec, random_tensors(small_spec))
    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")
    tokenizer = checkpoint.tokenizer()
    assert tokenizer.decode(tokenizer.encode("hello you", add_special=False)) == "hello you"
    template = checkpoint.chat_template()
    assert template is not None
    assert template.render([{"role": "user", "content": "hi"}]) == f"{SPECIAL[0]}hi{SPECIAL[1]}"


def test_a_file_without_tokenizer_says_so_only_when_asked(small_spec, tmp_path):
    write_gguf(tmp_path / "model.gguf", small_spec, random_tensors(small_spec), tokenizer=False)
    checkpoint = GgufCheckpoint(tmp_path / "model.gguf")
    assert checkpoint.chat_template() is None
    with pytest.raises(CheckpointError, match=r"model\.gguf: .*tokenizer"):
        checkpoint.tokenizer()
