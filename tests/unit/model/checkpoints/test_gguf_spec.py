from __future__ import annotations

from dataclasses import replace

import pytest

from andes_jax.model.checkpoints import CheckpointError
from andes_jax.model.checkpoints.gguf import GgufCheckpoint
from andes_jax.model.rope import Rope
from andes_jax.model.spec import ModelSpec
from tests.gguf_files import random_tensors, write_gguf


def opened(path, spec, **options) -> ModelSpec:
    write_gguf(path, spec, random_tensors(spec), **options)
    return GgufCheckpoint(path).spec


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"block_count": None}, "metadata key llama.block_count is missing"),
        ({"attention.layer_norm_rms_epsilon": None}, "attention.layer_norm_rms_epsilon is missing"),
        ({"embedding_length": "64"}, "llama.embedding_length is not one number"),
        ({"attention.head_count_kv": [1, 2]}, "attention.head_count_kv is not one number"),
        ({"block_count": 4_000_000_000}, "block_count 4000000000 does not fit"),
        ({"attention.head_count": 0}, "heads is 0"),
        ({"attention.head_count_kv": 3}, "4 heads cannot share 3 key/value heads"),
        ({"attention.value_length": 8}, "llama.attention.value_length 8 is not the head size 16"),
        ({"rope.dimension_count": 8}, "llama.rope.dimension_count 8 is not the head size 16"),
        ({"expert_count": 8}, "mixture-of-experts"),
        ({"split.count": 3}, "one of 3 parts of a split model"),
        ({"rope.scaling.type": "longrope"}, "rope scaling 'longrope' is not supported (supported: none, linear, yarn)"),
        ({"rope.freq_base": 0.0}, "rope base 0.0"),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 0.0}, "rope factor 0.0"),
        ({"tokenizer.ggml.tokens": ["a"]}, "the vocabulary has 1 tokens, token_embd.weight has 128 rows"),
    ],
)
def test_metadata_that_makes_no_model(keys, message, small_spec, tmp_path):
    with pytest.raises(CheckpointError) as error:
        opened(tmp_path / "model.gguf", small_spec, keys=keys)
    assert message in str(error.value)


def test_architectures_that_are_not_supported_are_told_those_that_are(small_spec, tmp_path):
    path = tmp_path / "model.gguf"
    write_gguf(path, small_spec, random_tensors(small_spec))
    path.write_bytes(path.read_bytes().replace(b"llama", b"mamba"))
    with pytest.raises(CheckpointError, match=r"'mamba' is not supported \(supported: llama, qwen2, qwen3, gemma2"):
        GgufCheckpoint(path)


def test_a_vocabulary_alone(small_spec, tmp_path):
    write_gguf(tmp_path / "vocab.gguf", small_spec, {})
    with pytest.raises(CheckpointError, match="holds a vocabulary alone, no tensors"):
        GgufCheckpoint(tmp_path / "vocab.gguf")


def test_defaults_of_a_llama(small_spec, tmp_path):
    keys = {"attention.key_length": None, "attention.value_length": None, "rope.freq_base": None}
    spec = opened(tmp_path / "a.gguf", small_spec, keys=keys)
    assert spec == small_spec
    spec = opened(tmp_path / "b.gguf", replace(small_spec, kv_heads=4), keys={"attention.head_count_kv": None})
    assert spec.kv_heads == 4
    spec = opened(tmp_path / "c.gguf", small_spec, keys={"attention.head_count_kv": [2, 2]})
    assert spec == small_spec


def test_the_tied_output_is_the_one_that_is_absent(small_spec, tmp_path):
    assert opened(tmp_path / "tied.gguf", replace(small_spec, tied=True)).tied
    assert not opened(tmp_path / "untied.gguf", small_spec).tied


def test_yarn_stretches_the_context_and_takes_llama_cpps_extra_factor(small_spec, tmp_path):
    keys = {
        "context_length": 64,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 64,
        "rope.scaling.attn_factor": 0.5,
    }
    spec = opened(tmp_path / "model.gguf", small_spec, keys=keys)
    expected = Rope.yarn(16, 10000.0, factor=4.0, original_max_position=64)
    assert spec.max_position == 256
    assert spec.rope.inverse_frequencies == expected.inverse_frequencies
    assert spec.rope.attention_factor == pytest.approx(expected.attention_factor / 2)


def gemma(small_spec, family, layers) -> ModelSpec:
    settings = {"activation": "gelu_tanh", "post_norms": True, "embedding_scale": 8.0, "tied": True}
    return replace(small_spec, family=family, layers=layers, sliding_window=32, windowed=(True,) * layers, **settings)


def test_gemma2_alternates_its_window(small_spec, tmp_path):
    spec = opened(tmp_path / "model.gguf", gemma(small_spec, "gemma2", 4))
    assert spec.windowed == (True, False, True, False)
    assert spec.local_rope is None and not spec.qk_norm


def test_gemma3_has_five_local_layers_to_one_global(small_spec, tmp_path):
    spec = opened(
        tmp_path / "model.gguf", replace(gemma(small_spec, "gemma3", 7), qk_norm=True), keys={"rope.freq_base": 1e6}
    )
    assert spec.windowed == (True, True, True, True, True, False, True)
    assert spec.rope_of(0) == Rope.plain(16, 10000.0)
    assert spec.rope_of(5) == Rope.plain(16, 1e6)
    assert (spec.window_of(0), spec.window_of(5)) == (32, None)


@pytest.mark.parametrize(("family", "layers"), [("gemma2", 46), ("gemma3", 62)])
def test_the_27b_models_divide_scores_by_hidden_over_heads(family, layers, small_spec, tmp_path):
    spec = replace(gemma(small_spec, family, layers), qk_norm=family == "gemma3", heads=2, kv_heads=1)
    assert opened(tmp_path / "model.gguf", spec).attention_scale == 32**-0.5


def test_a_window_pattern_in_the_file_is_followed(small_spec, tmp_path):
    spec = gemma(small_spec, "gemma2", 4)
    keys = {"attention.sliding_window_pattern": [True, True, False, True]}
    assert opened(tmp_path / "a.gguf", spec, keys=keys).windowed == (True, True, False, True)
    keys = {"attention.sliding_window_pattern": 4}
    assert opened(tmp_path / "b.gguf", spec, keys=keys).windowed == (True, True, True, False)
