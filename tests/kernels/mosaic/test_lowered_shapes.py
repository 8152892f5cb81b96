"""What is refused at the start and what lowers are the same line: every head size is on one of its sides."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from andes_jax.model.attention import check_pool
from kernels_pallas.paged_attention.mosaic.attention import PAGE_TOKENS, MosaicAttention
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu
from kernels_pallas.paged_attention.options import AttentionOptions

pytestmark = pytest.mark.timeout(120)

GPUS = ("a10g", "a100", "h100")
HEAD_DIMS = range(32, 577, 32)
LARGEST = {  # head size that is served, by GPU and tokens of a page
    ("a10g", 16): 288,
    ("a10g", 32): 288,
    ("a10g", 64): 160,
    ("a100", 16): 480,
    ("a100", 32): 480,
    ("a100", 64): 256,
    ("h100", 16): 256,
    ("h100", 32): 256,
    ("h100", 64): 256,
}


def refusal(gpu: str, page_tokens: int, head_dim: int, group: int = 4) -> str | None:
    """What a server says at its start that cannot serve such heads; None where it can."""
    spec = SimpleNamespace(heads=2 * group, kv_heads=2, head_dim=head_dim)
    with abstract_gpu(gpu):
        try:
            check_pool("mosaic", spec, page_tokens, jnp.dtype("bfloat16"))  # type: ignore[arg-type]
        except ValueError as error:
            return str(error)
    return None


def lower(gpu: str, page_tokens: int, head_dim: int, group: int, tokens: int) -> None:
    attention = MosaicAttention()
    options = AttentionOptions(0.1, window=100, softcap=5.0) if group % 2 else AttentionOptions(0.1)
    numbers = jax.ShapeDtypeStruct((2,), jnp.int32)
    shapes = (
        jax.ShapeDtypeStruct((2, tokens, 2 * group, head_dim), jnp.float32),
        jax.ShapeDtypeStruct(attention.pool_shape(8, page_tokens, 2, head_dim), jnp.bfloat16),
        jax.ShapeDtypeStruct((2, 9), jnp.int32),
    )
    with abstract_gpu(gpu):
        function = jax.jit(lambda *arrays: attention.attend(*arrays, options))
        function.trace(*shapes, numbers, numbers).lower(lowering_platforms=("cuda",))


@pytest.mark.parametrize("place", LARGEST, ids=str)
def test_larger_heads_are_refused_at_the_start_and_xla_is_named(place):
    for head_dim, group in product(HEAD_DIMS, (1, 16)):
        why = refusal(*place, head_dim, group)
        assert (why is None) == (head_dim <= LARGEST[place]), f"{head_dim}: {why}"
        assert why is None or f"of {head_dim} numbers" in why and "xla attention has no such bounds" in why


# Head sizes that models have, and the largest; of these, the largest with small pages are lowered in all tests.
SWEPT = [
    (gpu, page, size, tokens)
    for gpu, page, tokens in product(GPUS, PAGE_TOKENS, (1, 20))
    for size in sorted({16, 64, 80, 128, 192, 224, 256, LARGEST[gpu, page]})
    if size <= LARGEST[gpu, page]
]


@pytest.mark.parametrize(
    ("number", "shape"),
    [
        pytest.param(
            number,
            shape,
            id="-".join(map(str, shape)),
            marks=[] if shape[1] == 16 and shape[2] == LARGEST[shape[:2]] else pytest.mark.slow,
        )
        for number, shape in enumerate(SWEPT)
    ],
)
def test_what_is_not_refused_lowers(number, shape):
    gpu, page_tokens, head_dim, tokens = shape
    group = (1, 3, 5, 7, 16)[number % 5]
    assert refusal(gpu, page_tokens, head_dim, group) is None
    lower(gpu, page_tokens, head_dim, group, tokens)
