"""What runs of pages are for: a block of them is copied at once, and a page at a time where they are scattered."""

from __future__ import annotations

from functools import partial

import jax
import pytest
from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks

from kernels_pallas.paged_attention.mosaic import ampere_decode, hopper_decode
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig
from kernels_pallas.paged_attention.options import AttentionOptions
from tests.kernels.mosaic.cases import decode_errors, make_case
from tests.kernels.mosaic.interpret_mma import INTERPRET

pytestmark = pytest.mark.timeout(120)

BLOCKS, PAGES_OF_A_BLOCK, KEYS_AND_VALUES, QUERIES = 3, 4, 2, 1


@pytest.mark.parametrize("module", [ampere_decode, hopper_decode], ids=["ampere", "hopper"])
@pytest.mark.parametrize(("pages", "copies_of_a_block"), [("run", 1), ("scattered", PAGES_OF_A_BLOCK)])
def test_copies_of_a_row(monkeypatch, module, pages, copies_of_a_block):
    copied: list[None] = []
    copy = gpu_callbacks.copy_gmem_to_smem
    monkeypatch.setattr(gpu_callbacks, "copy_gmem_to_smem", lambda *a, **k: (copied.append(None), copy(*a, **k))[1])
    case = make_case(spans=[(64 * BLOCKS - 1, 1)], pages=pages)
    options, config = AttentionOptions(0.125), DecodeConfig()
    decode = partial(module.decode, options=options, config=config, interpret=INTERPRET)
    out, lse = jax.device_get(jax.jit(decode)(case.queries[:, 0], case.pool, case.table, case.length))
    assert max(decode_errors(case, options, out, lse)) < case.tolerance
    assert len(copied) == QUERIES + BLOCKS * KEYS_AND_VALUES * copies_of_a_block
