"""What a compiler says of a kernel is read, and judged by the gates."""

from __future__ import annotations

import dataclasses

import pytest

from kernels_pallas.paged_attention.mosaic.gpus import GPUS, gpu_named
from scripts.gpu_codegen import findings
from scripts.gpu_codegen.findings import faults, read
from scripts.gpu_codegen.targets import target_config

TEXT = """Resources(smem_scratch_bytes=116736, tmem_scratch_cols=0)
.version 9.0
.target sm_90a
.maxntid 128, 1, 1
  cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1];
  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, 1, 1, 1, 0, 1;
  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}, 1, 1, 1, 0, 1;
ptxas info    : Compiling entry function 'paged_decode' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 180 registers, used 2 barriers, 1 bytes smem
"""
GOOD = read(TEXT)


def test_numbers_are_read():
    assert (GOOD.architecture, GOOD.registers, GOOD.threads) == ("sm_90a", 180, 128)
    assert (GOOD.stack_bytes, GOOD.spilled_bytes, GOOD.shared_bytes) == (0, 0, 116736)
    assert GOOD.instructions == {"wgmma": 2, "tma": 1, "mma": 0, "cp.async": 0}
    assert GOOD.programs(gpu_named("h100")) == 1  # by shared memory; registers allow two
    assert dataclasses.replace(GOOD, shared_bytes=1024).programs(gpu_named("h100")) == 2


def test_a_missing_number_and_a_second_kernel_are_errors():
    with pytest.raises(ValueError, match="registers.*found 0"):
        read(TEXT.replace("registers", "things"))
    with pytest.raises(ValueError, match="found 2"):
        read(TEXT + TEXT)


def test_a_good_kernel_has_no_faults():
    assert list(faults(GOOD, gpu_named("h100"), "spec")) == []


@pytest.mark.parametrize(
    "change, fault",
    [
        (dict(spilled_bytes=96), "spills 96 bytes, 0 are borne"),
        (dict(stack_bytes=8), "8 bytes on a stack"),
        (dict(shared_bytes=240_000), "240000 bytes of shared memory"),
        (dict(registers=255, threads=384), "97920 registers"),
        (dict(instructions=GOOD.instructions | {"tma": 0}), "has no tma"),
        (dict(architecture="sm_80"), "is for sm_80 and not for sm_90a"),
    ],
)
def test_each_gate_closes(change, fault):
    (found,) = faults(dataclasses.replace(GOOD, **change), gpu_named("h100"), "spec")
    assert fault in found


def test_spills_are_borne_where_the_table_says_so_and_no_further(monkeypatch):
    monkeypatch.setattr(findings, "SPILLS_BORNE", {("h100", "spec"): (96, "a reason")})
    spilling = dataclasses.replace(GOOD, spilled_bytes=96, stack_bytes=48)
    assert list(faults(spilling, gpu_named("h100"), "spec")) == []
    assert list(faults(spilling, gpu_named("h200"), "spec"))
    assert "lower the number" in next(faults(GOOD, gpu_named("h100"), "spec"))


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_targets_say_what_kernels_are_cut_by(gpu):
    text = target_config(gpu)
    assert f"shared_memory_per_block_optin: {gpu.shared_bytes}\n" in text
    assert f"core_count: {gpu.multiprocessors}\n" in text
    assert f'name: "{gpu.device_kind}"' in text
    assert ("ACCELERATED_FEATURES" in text) == (gpu.family == "hopper")
