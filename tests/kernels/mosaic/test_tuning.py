"""Cuts: every one fits its GPU and its pages, and a row of a table is preferred to the rule."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest

from kernels_pallas.paged_attention.mosaic import tuning
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from kernels_pallas.paged_attention.mosaic.gpus import GPUS, gpu_named
from kernels_pallas.paged_attention.mosaic.tuning import Shape, decode_config, prefill_config

SHAPES = [Shape(*numbers) for numbers in product((64, 96, 128, 256), (1, 3, 4, 8, 16), (16, 32, 64))]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_cuts_fit_pages_and_shared_memory(gpu):
    for shape in SHAPES:
        if gpu.name == "a10g" and shape.page_tokens * shape.head_dim > 64 * 128:
            continue  # see the test below
        for config in (decode_config(gpu, shape), prefill_config(gpu, shape)):
            assert config.block_tokens % shape.page_tokens == 0, shape
            assert config.stages >= 2, shape
            assert 4 * config.stages * config.block_tokens * shape.head_dim < gpu.shared_bytes, shape
        assert prefill_config(gpu, shape).block_queries % 16 == 0


def test_splits_are_the_callers():
    shape = Shape(128, 4, 16)
    config = decode_config(gpu_named("h100"), shape, splits=8)
    assert config.splits == 8
    assert dataclasses.replace(config, splits=1) == decode_config(gpu_named("h100"), shape)


def test_what_a_compile_without_a_gpu_has_shown():
    assert decode_config(gpu_named("a10g"), Shape(128, 4, 16)) == DecodeConfig(1, 64, 2)
    assert decode_config(gpu_named("h100"), Shape(64, 3, 16)) == DecodeConfig(1, 64, 4)
    assert prefill_config(gpu_named("h100"), Shape(128, 4, 16)) == PrefillConfig(64, 128, 2)


def test_a_row_is_preferred_to_the_rule(monkeypatch):
    shape = Shape(128, 4, 16)
    monkeypatch.setattr(tuning, "DECODE", {"a100": {shape: DecodeConfig(1, 128, 3)}})
    monkeypatch.setattr(tuning, "PREFILL", {"a100": {shape: PrefillConfig(32, 64, 3)}})
    assert decode_config(gpu_named("a100"), shape, splits=4) == DecodeConfig(4, 128, 3)
    assert prefill_config(gpu_named("a100"), shape) == PrefillConfig(32, 64, 3)
    assert decode_config(gpu_named("h100"), shape) == DecodeConfig(1, 64, 2)


def test_pages_too_large_for_a_gpu_are_an_error_that_says_so():
    for config in (decode_config, prefill_config):
        with pytest.raises(ValueError, match="two blocks of 64 tokens of 256 numbers .* NVIDIA A10G, 101376"):
            config(gpu_named("a10g"), Shape(256, 2, 64))
