"""A small model that the tests of the readers write in each form."""

from __future__ import annotations

from pathlib import Path

import pytest

from andes_jax.model.rope import Rope
from andes_jax.model.spec import ModelSpec

GOLDEN = Path(__file__).parents[3] / "golden" / "data"


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of tiny Hugging Face models, one for each family."""
    return GOLDEN


@pytest.fixture(scope="session")
def small_spec() -> ModelSpec:
    """A Llama of two layers whose rows are whole blocks of 32."""
    return ModelSpec(
        family="llama",
        layers=2,
        hidden=64,
        intermediate=96,
        heads=4,
        kv_heads=2,
        head_dim=16,
        vocab=128,
        max_position=256,
        norm_eps=1e-5,
        rope=Rope.plain(16, 10000.0),
        attention_scale=0.25,
    )
