"""The decoder against transformers' float32 logits, for a tiny random model of every family."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from andes_jax.model.attention import pool_shape
from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.model.decoder import Decoder, abstract_decoder, fill

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
FAMILIES = sorted(path.parent.name for path in GOLDEN.glob("*/golden.npz"))
PAGE_TOKENS, WIDTH = 16, 6


def _load(family: str) -> Decoder:
    checkpoint = open_checkpoint(GOLDEN / family)
    return fill(abstract_decoder(checkpoint.spec, jnp.dtype("float32"), "xla"), checkpoint.arrays("float32"))


def _logits(decoder: Decoder, ids: np.ndarray, chunks: list[int]) -> np.ndarray:
    """Logits at every position, computed in chunks over pages that are in no order."""
    shape = pool_shape("xla", decoder.spec, 12, PAGE_TOKENS)
    pools = [jnp.zeros(shape, jnp.float32) for _ in range(decoder.spec.layers)]
    table = jnp.asarray([[7, 3, 11, 1, 5, 2]], jnp.int32)
    run = nnx.jit(lambda decoder, *arrays: decoder(*arrays))
    parts, first = [], 0
    for size in chunks:
        tokens = jnp.asarray(ids[first : first + size], jnp.int32)[None]
        place = jnp.asarray([first], jnp.int32), jnp.asarray([size], jnp.int32)
        hidden, pools = run(decoder, tokens, pools, table, *place)
        parts.append(np.asarray(decoder.logits(hidden[0])))
        first += size
    return np.concatenate(parts)


def test_every_family_has_golden_data():
    assert {"llama2", "llama3", "smollm2", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"} <= set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_transformers(family):
    golden = np.load(GOLDEN / family / "golden.npz")
    got = _logits(_load(family), golden["ids"], [len(golden["ids"])])
    np.testing.assert_allclose(got, golden["logits"], atol=1e-4)


@pytest.mark.parametrize("family", ["llama3", "mistral", "gemma3"])
def test_chunks_and_single_tokens_give_the_same_logits(family):
    golden = np.load(GOLDEN / family / "golden.npz")
    got = _logits(_load(family), golden["ids"], [37, 16, 1, 1, 1, 24])
    np.testing.assert_allclose(got, golden["logits"], atol=1e-4)


def test_fill_names_what_is_missing_unknown_or_misshapen():
    spec = open_checkpoint(GOLDEN / "smollm2").spec
    tensors = dict(open_checkpoint(GOLDEN / "smollm2").tensors())
    empty = lambda: abstract_decoder(spec, jnp.dtype("float32"), "xla")  # noqa: E731
    with pytest.raises(ValueError, match="missing: norm.weight"):
        fill(empty(), [(name, value) for name, value in tensors.items() if name != "norm.weight"])
    with pytest.raises(ValueError, match="extra.weight has no place"):
        fill(empty(), [*tensors.items(), ("extra.weight", tensors["norm.weight"])])
    with pytest.raises(ValueError, match="norm.weight has shape"):
        fill(empty(), [(name, value[:1] if name == "norm.weight" else value) for name, value in tensors.items()])
