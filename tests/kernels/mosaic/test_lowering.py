"""Every kernel is lowered for GPUs that are not here: shapes, layouts, architecture and shared memory are checked."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS, Heads, Spec
from kernels_pallas.paged_attention.mosaic.gpus import gpu_named
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu
from kernels_pallas.paged_attention.mosaic.programs import program

# One GPU per family, the one with the least shared memory; of every kind and heads one spec, of all sizes of pages.
LOWERED_FOR = ("a10g", "h100")
CASES: dict[tuple[type, Heads], Spec] = {}
for spec in SPECS.values():
    page_tokens = (16, 32, 64)[len(CASES) % 3]
    if spec.page_tokens == page_tokens or spec.page_tokens * spec.heads.head_dim == 32 * 256:
        CASES.setdefault((type(spec), spec.heads), spec)


def _lowered(gpu: str, function, *shapes) -> str:
    with abstract_gpu(gpu):
        return jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("gpu", LOWERED_FOR)
@pytest.mark.parametrize("spec", CASES.values(), ids=[spec.name for spec in CASES.values()])
def test_specs_lower(gpu, spec):
    function, shapes = program(spec, gpu_named(gpu))
    assert _lowered(gpu, function, *shapes).count("mosaic_gpu_v2") == 1


def test_every_kind_model_and_page_is_lowered():
    assert {(kind, heads) for kind, heads in CASES} == {(type(spec), spec.heads) for spec in SPECS.values()}
    assert {spec.page_tokens for spec in CASES.values()} == {16, 32, 64}


def _copy(scratch_bytes: int):
    """A kernel that copies by TMA, which Ampere lacks, and takes so much shared memory."""

    def body(source, target, buffer, barrier):
        plgpu.copy_gmem_to_smem(source, buffer.at[pl.ds(0, 128)], barrier)
        plgpu.barrier_wait(barrier)
        plgpu.copy_smem_to_gmem(buffer.at[pl.ds(0, 128)], target)
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((128,), jnp.float32),
        scratch_types=[plgpu.SMEM((scratch_bytes // 4,), jnp.float32), plgpu.Barrier()],
    )


def test_what_an_architecture_lacks_is_refused():
    numbers = jax.ShapeDtypeStruct((128,), jnp.float32)
    assert "mosaic_gpu_v2" in _lowered("h100", _copy(4096), numbers)
    with pytest.raises(Exception, match="(?i)tma|bulk|hopper|arch|sm_|barrier"):
        _lowered("a100", _copy(4096), numbers)


def test_more_shared_memory_than_the_gpu_has_is_refused():
    numbers = jax.ShapeDtypeStruct((128,), jnp.float32)
    with pytest.raises(ValueError, match="(?i)shared memory"):
        _lowered("h100", _copy(240_000), numbers)


def test_a_gpu_nobody_knows_is_an_error():
    with pytest.raises(ValueError, match="no GPU named 'tpu'"), abstract_gpu("tpu"):
        pass
