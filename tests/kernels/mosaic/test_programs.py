"""Which kernel and which cut a spec gets on a GPU."""

from __future__ import annotations

import jax
import pytest

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS, DecodeSpec
from kernels_pallas.paged_attention.mosaic.gpus import gpu_named
from kernels_pallas.paged_attention.mosaic.programs import program


@pytest.mark.parametrize("gpu", ["a10g", "h100"])
@pytest.mark.parametrize("name", [name for name in SPECS if "smollm2" in name])
def test_results_have_the_shape_of_the_queries(name, gpu):
    spec = SPECS[name]
    function, shapes = program(spec, gpu_named(gpu))
    got = jax.eval_shape(function, *shapes)
    attention = got if isinstance(spec, DecodeSpec) else got[0]
    assert attention.shape == shapes[0].shape
    assert attention.dtype == "float32"
