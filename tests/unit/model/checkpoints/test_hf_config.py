from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.model.checkpoints import CheckpointError
from andes_jax.model.checkpoints.hf_config import spec_from_config
from andes_jax.model.rope import Rope

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "vocab_size": 128,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
LLAMA3_SCALING = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


def spec_of(**changes):
    return spec_from_config("config.json", LLAMA | changes)


def test_the_oldest_llama_config():
    spec = spec_of()
    assert (spec.kv_heads, spec.head_dim, spec.tied, spec.attention_scale) == (4, 16, False, 0.25)
    assert spec.rope == Rope.plain(16, 10000.0)
    assert spec.windowed == ()


def test_rope_in_the_spelling_of_transformers_4_and_5():
    old = spec_of(rope_theta=500000.0, rope_scaling=LLAMA3_SCALING)
    new = spec_of(rope_parameters={**LLAMA3_SCALING, "rope_theta": 500000.0})
    expected = Rope.llama3(
        16, 500000.0, factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_max_position=8192
    )
    assert old.rope == new.rope == expected
    assert spec_of(rope_scaling={"type": "linear", "factor": 2.0}).rope == Rope.linear(16, 10000.0, 2.0)
    assert spec_of(rope_theta=1e6, rope_scaling=None).rope == Rope.plain(16, 1e6)
    assert spec_of(rope_parameters={"rope_type": "default", "rope_theta": 1e6}).rope == Rope.plain(16, 1e6)


def test_qwen25_with_yarn():
    yarn = {"factor": 4.0, "original_max_position_embeddings": 1024, "type": "yarn"}
    spec = spec_of(model_type="qwen2", rope_theta=1e6, rope_scaling=yarn, max_position_embeddings=1024)
    assert spec.rope == Rope.yarn(16, 1e6, factor=4.0, original_max_position=1024)
    assert spec.max_position == 4096
    assert spec.attention_bias


def test_qwen_windows_need_to_be_switched_on():
    window = {"model_type": "qwen3", "sliding_window": 128, "max_window_layers": 2, "head_dim": 32}
    assert spec_of(**window, use_sliding_window=False).windowed == ()
    spec = spec_of(**window, use_sliding_window=True)
    assert spec.windowed == (False, False, True, True)
    assert (spec.window_of(1), spec.window_of(2), spec.qk_norm, spec.head_dim) == (None, 128, True, 32)
    kinds = ["sliding_attention", "full_attention"] * 2
    assert spec_of(**window, use_sliding_window=True, layer_types=kinds).windowed == (True, False, True, False)


def test_mistral_window():
    assert spec_of(model_type="mistral", sliding_window=64, num_key_value_heads=2).windowed == (True,) * 4
    assert spec_of(model_type="mistral", sliding_window=None, num_key_value_heads=2).windowed == ()


def test_gemma3_with_a_nested_config_that_leaves_defaults_out():
    """The config of gemma-3-4b-it as it was published."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text}
    spec = spec_from_config("config.json", config)
    assert (spec.heads, spec.kv_heads, spec.head_dim, spec.vocab, spec.max_position) == (8, 4, 256, 262208, 131072)
    assert (spec.tied, spec.qk_norm, spec.post_norms, spec.activation) == (True, True, True, "gelu_tanh")
    assert (spec.attention_scale, spec.embedding_scale, spec.attention_softcap) == (1 / 16, 2560**0.5, None)
    assert [layer for layer in range(34) if not spec.windowed[layer]] == [5, 11, 17, 23, 29]
    assert spec.rope_of(5) == Rope.linear(256, 1e6, 8.0)
    assert spec.rope_of(0) == Rope.plain(256, 10000.0)


def test_gemma3_bases_in_the_old_and_the_new_spelling():
    common = {"model_type": "gemma3_text", "num_attention_heads": 4, "head_dim": 16}
    old = spec_of(**common, rope_theta=5e5, rope_local_base_freq=500.0, sliding_window_pattern=2)
    parameters = {
        "full_attention": {"rope_type": "default", "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
    }
    new = spec_of(**common, rope_parameters=parameters, layer_types=["sliding_attention", "full_attention"] * 2)
    assert old == new
    assert (old.rope, old.local_rope) == (Rope.plain(16, 5e5), Rope.plain(16, 500.0))


def test_gemma2_caps():
    spec = spec_of(model_type="gemma2", head_dim=16, num_key_value_heads=2, num_attention_heads=4)
    assert (spec.attention_softcap, spec.logit_softcap) == (50.0, 30.0)
    spec = spec_of(model_type="gemma2", head_dim=16, num_key_value_heads=2, final_logit_softcapping=None)
    assert spec.logit_softcap is None
    assert spec.windowed == (True, False, True, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "mamba"},
            "model_type 'mamba' is not supported (supported: llama, mistral, qwen2, qwen3, gemma2",
        ),
        ({"model_type": None}, "model_type None is not supported"),
        ({"model_type": ["llama"]}, "model_type ['llama'] is not supported"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config (fp8) is not supported"),
        (
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "rope type 'dynamic' is not supported (supported: default",
        ),
        ({"rope_scaling": {"type": "linear"}}, "rope type 'linear' lacks factor"),
        ({"rope_scaling": [1]}, "a setting has the wrong type or size"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported"),
        ({"hidden_act": "relu"}, "activation 'relu' is not supported (supported: silu, gelu_pytorch_tanh)"),
        ({"mlp_bias": True}, "biases of the output and MLP"),
        ({"attention_bias": True}, "biases of the output and MLP"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size is '64', not a whole number"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000"),
        ({"num_attention_heads": 0}, "a setting has the wrong type or size"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 key/value heads"),
        ({"rope_theta": -1.0}, "rope base -1.0"),
        ({"model_type": "qwen2", "use_sliding_window": True, "layer_types": ["chunked"] * 4}, "layer type 'chunked'"),
        (
            {"model_type": "gemma2", "layer_types": ["full_attention", "sliding_attention"]},
            "2 window flags for 4 layers",
        ),
    ],
)
def test_configs_that_are_not_supported(changes, message):
    with pytest.raises(CheckpointError) as error:
        spec_of(**changes)
    assert str(error.value).startswith("config.json: ")
    assert message in str(error.value)


KEYS = [*LLAMA, "head_dim", "num_key_value_heads", "rope_theta", "rope_scaling", "rope_parameters", "layer_types"]
KEYS += ["sliding_window", "use_sliding_window", "query_pre_attn_scalar", "text_config", "tie_word_embeddings"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats()
    | st.sampled_from(["yarn", "linear", "", "full_attention"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "factor", "rope_theta", "full_attention", *KEYS]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(
    family=st.sampled_from(["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"]),
    changes=st.dictionaries(st.sampled_from([key for key in KEYS if key != "model_type"]), VALUES, max_size=3),
)
def test_any_values_give_a_spec_or_one_clear_line(family, changes):
    try:
        spec_of(model_type=family, **changes)
    except CheckpointError as error:
        assert str(error).startswith("config.json: ") and "\n" not in str(error)


def test_the_golden_configs_are_all_supported(golden):
    families = {path.parent.name: json.loads(path.read_text()) for path in golden.glob("*/config.json")}
    assert len(families) == 11
    for name, config in families.items():
        assert spec_from_config(name, config).layers >= 3
