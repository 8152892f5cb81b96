"""Which described GPU a device is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernels_pallas.paged_attention.mosaic.gpus import GPUS, gpu_named
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu
from kernels_pallas.paged_attention.mosaic.target import gpu_of, traced_gpu


def device(kind: str, capability: str, **more: object) -> SimpleNamespace:
    return SimpleNamespace(device_kind=kind, compute_capability=capability, **more)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_a_described_kind_is_itself(gpu):
    assert gpu_of(device(gpu.device_kind, ".".join(map(str, gpu.capability)), core_count=7)) == gpu


def test_another_kind_is_like_one_of_its_capability_with_its_own_size():
    got = gpu_of(device("NVIDIA GeForce RTX 3090", "8.6", core_count=82))
    assert (got.multiprocessors, got.shared_bytes) == (82, gpu_named("a10g").shared_bytes)
    assert got.name == "a10g"  # whose tuned cuts it takes
    assert gpu_of(device("NVIDIA GH200 480GB", "9.0")).multiprocessors == gpu_named("h100").multiprocessors


@pytest.mark.parametrize("capability", ["7.5", "8.9", "10.0", "12.0"])
def test_a_capability_without_kernels_is_refused_with_those_that_have_some(capability):
    with pytest.raises(ValueError, match=rf"NVIDIA X has CUDA capability {capability}; .* 8\.0, 8\.6, 9\.0"):
        gpu_of(device("NVIDIA X", capability))


def test_what_is_no_gpu_is_refused():
    with pytest.raises(ValueError, match="cpu is no NVIDIA GPU"):
        traced_gpu()


def test_a_gpu_that_is_not_there_counts_while_one_is_traced_for():
    with abstract_gpu("a100"):
        assert traced_gpu() == gpu_named("a100")
