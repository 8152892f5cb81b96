"""The decoder over the Mosaic kernels: interpreted it gives what the specification gives, and its step lowers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from andes_jax.model.attention import pool_shape
from andes_jax.model.decoder import Decoder
from andes_jax.model.rope import Rope
from andes_jax.model.spec import ModelSpec
from kernels_pallas.paged_attention import api
from kernels_pallas.paged_attention.mosaic import attention
from kernels_pallas.paged_attention.mosaic.attention import MosaicAttention
from kernels_pallas.paged_attention.mosaic.gpus import gpu_named
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu
from scripts.gpu_codegen.step import decode_step, llama_3_8b
from tests.kernels.mosaic.cases import relative_error
from tests.kernels.mosaic.interpret_mma import INTERPRET
from tests.kernels.mosaic.mutants import mutated

pytestmark = pytest.mark.timeout(240)

PAGE_TOKENS, PAGES = 16, 16
TOLERANCE = 3e-3  # of the norm: what rounding to bfloat16 costs


def _spec(head_dim: int, windowed: tuple[bool, ...]) -> ModelSpec:
    """Two layers, and three query heads for each of two key/value heads."""
    return ModelSpec(
        family="llama",
        layers=2,
        hidden=96,
        intermediate=64,
        heads=6,
        kv_heads=2,
        head_dim=head_dim,
        vocab=50,
        max_position=256,
        norm_eps=1e-5,
        rope=Rope.plain(head_dim, 10000.0),
        attention_scale=head_dim**-0.5,
        sliding_window=24,
        windowed=windowed,
    )


def _decoder(spec: ModelSpec, implementation: str) -> Decoder:
    decoder = Decoder(spec, jnp.dtype("float32"), implementation)
    graph, state = nnx.split(decoder)
    leaves, treedef = jax.tree.flatten(state)
    rng = np.random.default_rng(3)
    noise = [jnp.asarray(rng.standard_normal(leaf.shape) / leaf.shape[-1] ** 0.5, leaf.dtype) for leaf in leaves]
    return nnx.merge(graph, jax.tree.unflatten(treedef, noise))


# (first, count) of two rows in each step: chunks of a prompt, ragged, then single tokens, one row idle at times
STEPS = {
    "chunks": [[(0, 20), (0, 9)], [(20, 20), (9, 0)], [(40, 1), (9, 1)], [(41, 1), (10, 0)]],
    "short": [[(0, 20), (0, 9)], [(20, 1), (9, 1)], [(21, 1), (10, 0)]],
}


def _hidden(spec: ModelSpec, implementation: str, steps: list[list[tuple[int, int]]]) -> list[np.ndarray]:
    """Hidden states of every row's real tokens, step by step."""
    decoder = _decoder(spec, implementation)
    shape = pool_shape(implementation, spec, PAGES, PAGE_TOKENS)
    pools = [jnp.zeros(shape, jnp.bfloat16) for _ in range(spec.layers)]
    table = jnp.asarray([[7, 3, 11], [1, 5, 2]], jnp.int32)
    tokens = np.random.default_rng(4).integers(0, spec.vocab, (2, 64))
    run = nnx.jit(lambda decoder, *arrays: decoder(*arrays))
    parts = []
    for spans in steps:
        width = max(count for _, count in spans)
        fed = np.zeros((2, width), np.int32)
        for row, (first, count) in enumerate(spans):
            fed[row, :count] = tokens[row, first : first + count]
        first, count = (jnp.asarray(numbers, jnp.int32) for numbers in zip(*spans, strict=True))
        hidden, pools = run(decoder, jnp.asarray(fed), pools, table, first, count)
        assert np.isfinite(hidden).all()
        parts += [np.asarray(hidden[row, :count]) for row, (_, count) in enumerate(spans) if count]
    return parts


@pytest.mark.parametrize(
    ("gpu", "head_dim", "steps", "windowed"),
    [
        ("a10g", 80, "short", ()),
        pytest.param("h100", 64, "chunks", (False, True), marks=pytest.mark.slow),
        pytest.param("h100", 80, "short", (), marks=pytest.mark.slow),
        pytest.param("a10g", 80, "chunks", (False, True), marks=pytest.mark.slow),
    ],
)
def test_chunks_and_single_tokens_give_what_the_specification_gives(monkeypatch, gpu, head_dim, steps, windowed):
    monkeypatch.setitem(api.IMPLEMENTATIONS, "mosaic", lambda: MosaicAttention(gpu_named(gpu), INTERPRET))
    assert max(_errors(_spec(head_dim, windowed), STEPS[steps])) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ("jnp.where(count > 0, first + count, 0)", "jnp.where(count > 0, first + count - 1, 0)"),
        ("reference.places(table, first,", "reference.places(table, first + 1,"),
    ],
)
def test_one_key_too_few_or_in_another_place_is_found(monkeypatch, change):
    mutant = mutated(attention, change)
    monkeypatch.setitem(api.IMPLEMENTATIONS, "mosaic", lambda: mutant.MosaicAttention(gpu_named("h100"), INTERPRET))
    assert max(_errors(_spec(64, ()), STEPS["short"])) > 2 * TOLERANCE


def _errors(spec: ModelSpec, steps: list[list[tuple[int, int]]]) -> list[float]:
    got, expected = (_hidden(spec, implementation, steps) for implementation in ("mosaic", "reference"))
    return [relative_error(*pair) for pair in zip(got, expected, strict=True)]


@pytest.mark.parametrize("gpu", ["h100", "a100"])
def test_a_whole_decode_step_lowers_with_its_pools_donated(gpu):
    spec = llama_3_8b()
    step, arguments = decode_step(spec)
    with abstract_gpu(gpu):
        text = step.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("tf.aliasing_output") == spec.layers
    assert text.count("custom_call @mosaic_gpu_v2") == 1  # one function, which every layer calls
    assert text.count("call @_decode(") == spec.layers
