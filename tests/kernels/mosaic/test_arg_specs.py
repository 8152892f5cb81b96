"""Named shapes: what models publish, in the kernels' layout."""

from __future__ import annotations

import pytest

from kernels_pallas.paged_attention.mosaic.arg_specs import MODELS, SPECS, DecodeSpec, PrefillSpec

BLOCKS = (64, 128)


def test_every_model_has_decodes_and_prefills():
    for model in MODELS:
        for kind in (DecodeSpec, PrefillSpec):
            assert [spec for spec in SPECS.values() if isinstance(spec, kind) and spec.model == model]


@pytest.mark.parametrize("model", MODELS)
def test_heads_share_keys_evenly(model):
    heads = MODELS[model]
    assert heads.group * heads.kv_heads == heads.heads
    assert 1 <= heads.group <= 16
    assert heads.padded_dim >= heads.head_dim
    assert heads.options.scale == pytest.approx(heads.head_dim**-0.5)


def test_windows_are_shorter_than_some_context():
    for model, heads in MODELS.items():
        contexts = [spec.context for spec in SPECS.values() if spec.model == model]
        assert heads.window is None or heads.window < max(contexts)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("block_tokens", BLOCKS)
def test_arguments_fit_together(spec, block_tokens):
    queries, pool, table, *row_numbers = spec.arguments(block_tokens)
    heads = spec.heads
    both, kv_heads, pages, page_tokens, padded = pool.shape
    assert (both, kv_heads, page_tokens, padded) == (2, heads.kv_heads, spec.page_tokens, heads.padded_dim)
    assert queries.shape[0] == table.shape[0] == spec.rows
    assert queries.shape[-3:] == (heads.kv_heads, heads.group, heads.padded_dim)
    assert queries.dtype == pool.dtype
    width = table.shape[1]
    assert width * page_tokens >= spec.context and width * page_tokens % block_tokens == 0
    assert pages > spec.rows * width  # page 0 is nobody's
    assert all(numbers.shape == (spec.rows,) and numbers.dtype == "int32" for numbers in (*row_numbers,))
    assert table.dtype == "int32"
    if isinstance(spec, PrefillSpec):
        assert queries.shape[1] == spec.chunk <= spec.context
        assert len(row_numbers) == 2
    else:
        assert len(row_numbers) == 1
