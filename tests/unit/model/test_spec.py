from __future__ import annotations

import json
from dataclasses import replace

import pytest

from andes_jax.model.rope import Rope
from andes_jax.model.spec import ModelSpec, expected_shapes, spec_from_json, spec_to_json

SPEC = ModelSpec(
    family="llama",
    layers=2,
    hidden=32,
    intermediate=48,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab=100,
    max_position=64,
    norm_eps=1e-5,
    rope=Rope.plain(16, 10000.0),
    attention_scale=0.25,
)
LOCAL = replace(SPEC, local_rope=Rope.plain(16, 100.0), sliding_window=8, windowed=(True, False))


def test_shapes_of_a_llama():
    shapes = expected_shapes(SPEC)
    assert len(shapes) == 3 + 2 * 9
    assert shapes["embed_tokens.weight"] == shapes["lm_head.weight"] == (100, 32)
    assert shapes["layers.1.self_attn.q_proj.weight"] == (64, 32)
    assert shapes["layers.1.self_attn.k_proj.weight"] == shapes["layers.1.self_attn.v_proj.weight"] == (32, 32)
    assert shapes["layers.0.self_attn.o_proj.weight"] == (32, 64)
    assert shapes["layers.0.mlp.down_proj.weight"] == (32, 48)
    assert "lm_head.weight" not in expected_shapes(replace(SPEC, tied=True))


def test_shapes_of_what_families_add():
    plain = set(expected_shapes(SPEC))
    added = {
        name: expected_shapes(replace(SPEC, **{name: True})).keys() - plain
        for name in ("attention_bias", "qk_norm", "post_norms")
    }
    assert {name.removeprefix("layers.0.") for name in added["attention_bias"] if ".0." in name} == {
        f"self_attn.{each}_proj.bias" for each in "qkv"
    }
    assert len(added["qk_norm"]) == len(added["post_norms"]) == 4
    shapes = expected_shapes(replace(SPEC, qk_norm=True, attention_bias=True))
    assert shapes["layers.1.self_attn.k_norm.weight"] == (16,)
    assert shapes["layers.1.self_attn.k_proj.bias"] == (32,)


def test_layers_have_their_own_window_and_rope():
    assert (LOCAL.window_of(0), LOCAL.window_of(1)) == (8, None)
    assert (LOCAL.rope_of(0), LOCAL.rope_of(1)) == (Rope.plain(16, 100.0), Rope.plain(16, 10000.0))
    assert (SPEC.window_of(0), SPEC.rope_of(0)) == (None, SPEC.rope)
    assert replace(LOCAL, local_rope=None).rope_of(0) == SPEC.rope


def test_a_spec_survives_json():
    for spec in (SPEC, LOCAL, replace(SPEC, rope=Rope.yarn(16, 1e4, factor=4.0, original_max_position=64))):
        back = spec_from_json(json.loads(json.dumps(spec_to_json(spec))))
        assert back == spec
        assert hash(back) == hash(spec)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.pop("hidden"), "hidden"),
        (lambda values: values.update(colour="red"), "unknown spec fields colour"),
        (lambda values: values["rope"].pop("attention_factor"), "attention_factor"),
        (lambda values: values.update(hidden=0), "hidden is 0"),
    ],
)
def test_json_that_is_no_spec(change, message):
    values = json.loads(json.dumps(spec_to_json(SPEC)))
    change(values)
    with pytest.raises(ValueError, match=message):
        spec_from_json(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_heads": 3}, "4 heads cannot share 3"),
        ({"vocab": 0}, "vocab is 0"),
        ({"layers": 10**9}, "1000000000 layers"),
        ({"family": "gpt2"}, "family 'gpt2'"),
        ({"activation": "relu"}, "activation 'relu'"),
        ({"head_dim": 15}, "head_dim 15 is odd"),
        ({"rope": Rope.plain(8, 10000.0)}, "4 rope frequencies for head_dim 16"),
        ({"windowed": (True,), "sliding_window": 4}, "1 window flags for 2 layers"),
        ({"windowed": (True, False)}, "a sliding window of None"),
    ],
)
def test_contradictions(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SPEC, **change)
