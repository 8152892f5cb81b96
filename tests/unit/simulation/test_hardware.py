"""Models and chips against what is published of them."""

from __future__ import annotations

import pytest

from andes_jax.simulation.hardware import CHIPS, MODELS


@pytest.mark.parametrize(
    ("name", "parameters", "kv_token_bytes"),
    [
        ("opt-13b", 12.85e9, 819_200),
        ("llama-2-13b", 13.02e9, 819_200),
        ("llama-3-8b", 8.03e9, 131_072),
        ("qwen3-8b", 8.19e9, 147_456),
        ("mistral-7b", 7.24e9, 131_072),
        ("smollm2-135m", 134.5e6, 23_040),
    ],
)
def test_sizes_add_up_to_the_published_parameters(name, parameters, kv_token_bytes):
    assert MODELS[name].weight_bytes / 2 == pytest.approx(parameters, rel=2e-3)
    assert MODELS[name].kv_token_bytes == kv_token_bytes


def test_newer_chips_are_faster():
    older, newer = CHIPS["a10g"], CHIPS["h200"]
    assert older.bytes_per_s < newer.bytes_per_s and older.operations_per_s < newer.operations_per_s
