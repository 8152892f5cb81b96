"""GPUs by name, and the kernels that run on them."""

from __future__ import annotations

import pytest

from kernels_pallas.paged_attention.mosaic.gpus import GPUS, gpu_named


def test_families_follow_the_architecture():
    families = {name: gpu.family for name, gpu in GPUS.items()}
    assert families == {"a10g": "ampere", "a100": "ampere", "h100": "hopper", "h200": "hopper"}
    assert all(gpu_named(name).name == name for name in GPUS)


def test_a_gpu_nobody_knows_is_an_error_that_names_the_others():
    with pytest.raises(ValueError, match="no GPU named 'tpu'; there are a10g, a100, h100, h200"):
        gpu_named("tpu")
