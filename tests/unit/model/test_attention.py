"""Which attention a setting means on a device. What attention computes is tested with the decoder."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from andes_jax.model.attention import NativeUnavailable, check_pool, pool_shape, prepare_implementation
from andes_jax.model.rope import Rope
from andes_jax.model.spec import ModelSpec
from kernels_pallas.paged_attention import native
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu

SPEC = ModelSpec("llama", 2, 96, 64, 6, 2, 80, 50, 256, 1e-5, Rope.plain(80, 1e4), 0.1)


def test_auto_on_a_gpu_is_mosaic(tmp_path):
    assert prepare_implementation("auto", "cuda", tmp_path) == "mosaic"
    assert prepare_implementation("mosaic", "cuda", tmp_path) == "mosaic"
    assert prepare_implementation("xla", "cuda", tmp_path) == "xla"


def test_auto_on_a_cpu_is_native_or_else_xla_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(native, "prepare", lambda folder: None)
    assert prepare_implementation("auto", "cpu", tmp_path) == "native"

    def missing(folder):
        raise NativeUnavailable("no compiler")

    monkeypatch.setattr(native, "prepare", missing)
    assert prepare_implementation("auto", "cpu", tmp_path) == "xla"
    assert "slower: no compiler" in caplog.text
    with pytest.raises(NativeUnavailable):
        prepare_implementation("native", "cpu", tmp_path)


@pytest.mark.parametrize(("wanted", "platform"), [("native", "cuda"), ("mosaic", "cpu")])
def test_one_for_another_platform_is_refused(wanted, platform, tmp_path):
    with pytest.raises(ValueError, match=f"{wanted} attention runs on .* and not on {platform}; auto takes one"):
        prepare_implementation(wanted, platform, tmp_path)


def test_heads_are_padded_in_the_pools_of_the_gpu_kernels_alone():
    assert pool_shape("mosaic", SPEC, 9, 16) == (2, 2, 9, 16, 96)
    assert pool_shape("xla", SPEC, 9, 16) == (2, 2, 9, 16, 80)


def test_a_pool_is_checked_against_the_device():
    check_pool("xla", SPEC, 7, jnp.dtype("float32"))
    with abstract_gpu("a10g"):
        check_pool("mosaic", SPEC, 16, jnp.dtype("bfloat16"))
        with pytest.raises(ValueError, match="not in float32; xla attention has no such bounds"):
            check_pool("mosaic", SPEC, 16, jnp.dtype("float32"))
    with pytest.raises(ValueError, match="cpu is no NVIDIA GPU"):
        check_pool("mosaic", SPEC, 16, jnp.dtype("bfloat16"))
