"""andes_jax.build: how settings, a model and a device become sizes. Building is tested end to end."""

from __future__ import annotations

from dataclasses import replace

import jax
import pytest

import andes_jax.build
from andes_jax.build import BuildError, build_engine, describe, fit, memory_words
from andes_jax.config import load_config
from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.model.rope import Rope
from andes_jax.runtime.device import Device
from kernels_pallas.paged_attention.mosaic.lowering import abstract_gpu

GPU = Device("cuda", "a GPU", memory_bytes=80 * 2**30, free_bytes=80 * 2**30)
CPU = Device("cpu", "a CPU", memory_bytes=16 * 2**30, free_bytes=12 * 2**30)


@pytest.fixture(scope="module")
def spec(embedded_gguf):
    """SmolLM2-135M: 30 layers, 3 heads of 64 for keys and values, 8192 positions."""
    return open_checkpoint(embedded_gguf).spec


def settle(**flags):
    return load_config(environ={}, flags={key.replace("__", "."): value for key, value in flags.items()})


def test_a_page_holds_keys_and_values_of_all_layers(spec):
    chosen = fit(settle(model__dtype="float32", engine__page_tokens=32, engine__kv_pool_bytes="100MiB"), spec, CPU)
    page_bytes = 2 * 30 * 3 * 64 * 32 * 4
    assert chosen.sizes.pages == 100 * 2**20 // page_bytes
    assert chosen.pool_bytes == chosen.sizes.pages * page_bytes <= 100 * 2**20
    assert chosen.pool_tokens == (chosen.sizes.pages - 1) * 32
    half = fit(settle(model__dtype="bfloat16", engine__page_tokens=32, engine__kv_pool_bytes="100MiB"), spec, CPU)
    assert half.sizes.pages == 100 * 2**20 * 2 // page_bytes and half.weight_bytes * 2 == chosen.weight_bytes


def test_on_a_gpu_heads_are_padded_and_numbers_have_sixteen_bits(spec):
    padded = replace(spec, head_dim=80, rope=Rope.plain(80, 1e5), hidden=720)
    with abstract_gpu("h100"):
        chosen = fit(settle(engine__kv_pool_bytes="100MiB"), padded, GPU)
    assert (chosen.dtype, chosen.sizes.implementation, chosen.sizes.page_tokens) == ("bfloat16", "mosaic", 16)
    assert chosen.sizes.pages == 100 * 2**20 // (2 * 30 * 3 * 96 * 16 * 2)
    assert chosen.pool_bytes <= 100 * 2**20


def test_on_a_gpu_the_pool_has_a_share_of_what_the_weights_leave(spec):
    small = replace(GPU, free_bytes=2**30)
    with abstract_gpu("h100"):
        chosen = fit(settle(engine__host_kv_bytes="0"), spec, small)
    left = small.free_bytes - chosen.weight_bytes
    assert 0.8 * left < chosen.pool_bytes < left


def test_what_the_gpu_kernels_cannot_do_is_refused_and_xla_can(spec):
    wide = settle(model__dtype="float32", engine__kv_pool_bytes="100MiB")
    with abstract_gpu("a100"):
        with pytest.raises(BuildError, match=r"not in float32; xla attention"):
            fit(wide, spec, GPU)
        with pytest.raises(BuildError, match=r"pages of 16, 32 or 64 tokens, not of 128"):
            fit(settle(engine__page_tokens=128), spec, GPU)
    xla = settle(model__dtype="float32", engine__kv_pool_bytes="100MiB", engine__attention="xla")
    assert fit(xla, spec, GPU).sizes.implementation == "xla"
    with pytest.raises(BuildError, match="mosaic attention runs on cuda and not on cpu"):
        fit(settle(engine__attention="mosaic"), spec, CPU)


def test_no_more_is_taken_than_all_sequences_can_use(spec):
    roomy = replace(CPU, memory_bytes=2**50, free_bytes=2**50)
    chosen = fit(settle(engine__max_sequences=3, model__max_model_len=1000), spec, roomy)
    assert chosen.sizes.pages == 3 * -(-1000 // chosen.sizes.page_tokens) + 1


def test_a_pool_nobody_sized_leaves_memory_for_others(spec):
    chosen = fit(settle(), spec, CPU)
    assert 0 < chosen.pool_bytes <= CPU.memory_bytes / 4


def test_lengths_follow_the_model_and_the_settings(spec):
    assert fit(settle(), spec, CPU).limits.max_model_len == 8192
    assert fit(settle(), replace(spec, max_position=131072), CPU).limits.max_model_len == 8192
    assert fit(settle(model__max_model_len=100), spec, CPU).limits.max_model_len == 100
    with pytest.raises(BuildError, match=r"9000.*8192"):
        fit(settle(model__max_model_len=9000), spec, CPU)


def test_a_pool_without_a_page_is_refused(spec):
    with pytest.raises(BuildError, match="kv_pool_bytes"):
        fit(settle(engine__kv_pool_bytes="1MiB"), spec, CPU)
    with pytest.raises(BuildError, match="kv_pool_bytes"):
        fit(settle(), spec, replace(CPU, free_bytes=1000))


def test_a_pool_below_the_longest_length_limits_the_context(spec):
    settings = settle(engine__kv_pool_bytes="10MiB", engine__page_tokens=64, model__dtype="float32")
    chosen = fit(settings, spec, CPU)
    assert chosen.context_tokens == chosen.pool_tokens == 128 < chosen.limits.max_model_len
    assert "128 tokens each at most (the cache holds no more; max_model_len is 8192)" in describe(chosen, "fcfs")
    assert fit(settle(), spec, CPU).context_tokens == 8192


def test_memory_is_refused_before_it_is_taken_and_where_the_device_runs_out(monkeypatch):
    def exhausted(checkpoint, chosen):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setattr(andes_jax.build, "keep_compiled", lambda folder: None)
    monkeypatch.setattr(andes_jax.build, "_load", exhausted)
    said: list[str] = []
    with pytest.raises(BuildError, match=r"100\.0 TiB of cache.*--kv-pool-bytes.*--host-kv-bytes"):
        build_engine(settle(engine__kv_pool_bytes="100TiB"), progress=said.append)
    assert said == [], "nothing was loaded"
    with pytest.raises(BuildError, match=r"16\.. MiB of cache.*--kv-pool-bytes"):
        build_engine(settle(engine__kv_pool_bytes="17MiB"), progress=said.append)
    assert len(said) == 1


def test_host_memory_is_counted_in_pages_and_against_the_memory_it_is_part_of(spec):
    common = dict(model__dtype="float32", engine__page_tokens=32, engine__kv_pool_bytes="100MiB")
    page_bytes = 2 * 30 * 3 * 64 * 32 * 4
    without = fit(settle(engine__host_kv_bytes="0", **common), spec, CPU)
    assert (without.sizes.host_pages, without.host_bytes, without.staging_bytes) == (0, 0, 0)
    assert "host memory" not in describe(without, "fcfs") + memory_words(without)
    assert fit(settle(engine__host_kv_bytes=str(page_bytes - 1), **common), spec, CPU).sizes.host_pages == 0

    chosen = fit(settle(engine__host_kv_bytes=str(50 * page_bytes + 1), **common), spec, CPU)
    assert chosen.sizes.host_pages == 50 and chosen.host_bytes == 50 * page_bytes
    assert chosen.staging_bytes == 16 * page_bytes, "copies on their way"
    assert chosen.needed_bytes == without.needed_bytes + 66 * page_bytes
    apart = replace(chosen, device=replace(CPU, platform="cuda"))
    assert apart.needed_bytes == without.needed_bytes + 16 * page_bytes
    assert "70.3 MiB of host memory for paused" in describe(chosen, "fcfs")
    assert "70.3 MiB of host memory for paused" in memory_words(chosen)


@pytest.mark.parametrize(("goal", "worst_first"), [("mean", False), ("max_min", True)])
def test_the_scheduler_is_made_of_the_settings(spec, goal, worst_first):
    settings = settle(
        engine__kv_pool_bytes="100MiB", engine__host_kv_bytes="50MiB", scheduling__policy="three_tier",
        scheduling__goal=goal, scheduling__alpha=0.7, scheduling__beta=0.2, scheduling__gamma=0.05,
        scheduling__realtime_wait=1.0, scheduling__streaming_wait=2.0, scheduling__batch_wait=3.0,
        scheduling__tier_lift=77.0, scheduling__max_preempt=5, scheduling__burst_reserve=0.25,
        scheduling__warmup_iters=9, scheduling__realtime_aim=0.3,
    )  # fmt: skip
    chosen = fit(settings, spec, CPU)
    assert (chosen.limits.max_preempt, chosen.limits.warmup_steps, chosen.limits.realtime_aim_s) == (5, 9, 0.3)
    scheduler = andes_jax.build._scheduler(settings, chosen)
    weights = scheduler.policy.weights
    assert (weights.alpha, weights.beta, weights.gamma, weights.lift_s) == (0.7, 0.2, 0.05, 77.0)
    assert weights.allowed_wait_s == (1.0, 2.0, 3.0) and weights.worst_first == worst_first
    assert scheduler.pool.total == chosen.sizes.pages - 1
    assert scheduler.pool.reserve == int(0.25 * scheduler.pool.total) > 0
    assert scheduler.stowage.host_pages.total == chosen.sizes.host_pages > 0


def test_the_description_is_one_line_with_what_was_chosen(spec):
    line = describe(fit(settle(model__dtype="float32", engine__max_sequences=7), spec, CPU), "fcfs")
    assert "\n" not in line
    assert all(part in line for part in ("float32", "a CPU", "7 sequences", "8192 tokens", "fcfs"))
