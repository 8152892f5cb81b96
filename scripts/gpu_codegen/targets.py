"""GPUs described to XLA, which asks a device for these numbers where there is one (its GpuTargetConfigProto)."""

from __future__ import annotations

from dataclasses import dataclass

from kernels_pallas.paged_attention.mosaic.gpus import REGISTERS, RESERVED_SHARED, Gpu


@dataclass(frozen=True, slots=True)
class Rest:
    """What no kernel is cut by, and XLA wants to know all the same. From NVIDIA's data sheets."""

    threads: int  # of a multiprocessor
    bytes_per_s: int
    cache_bytes: int  # second level
    ghz: float
    memory_bytes: int


RESTS = {
    "a10g": Rest(1536, 600_000_000_000, 6 << 20, 1.71, 23_835_246_592),
    "a100": Rest(2048, 1_555_000_000_000, 40 << 20, 1.41, 42_298_834_944),
    "h100": Rest(2048, 3_352_320_000_000, 50 << 20, 1.98, 84_942_979_072),
    "h200": Rest(2048, 4_800_000_000_000, 60 << 20, 1.98, 150_000_000_000),
}


def target_config(gpu: Gpu) -> str:
    """The description in protobuf's text format."""
    rest = RESTS[gpu.name]
    major, minor = gpu.capability
    features = "feature_extension: ACCELERATED_FEATURES" if gpu.family == "hopper" else ""  # sm_90a: wgmma
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {gpu.shared_bytes + RESERVED_SHARED}
  shared_memory_per_block_optin: {gpu.shared_bytes}
  threads_per_core_limit: {rest.threads}
  core_count: {gpu.multiprocessors}
  fpus_per_core: {128 if gpu.capability != (8, 0) else 64}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {rest.bytes_per_s}
  l2_cache_size: {rest.cache_bytes}
  clock_rate_ghz: {rest.ghz}
  device_memory_size: {rest.memory_bytes}
  cuda_compute_capability {{ major: {major} minor: {minor} {features} }}
  registers_per_core_limit: {REGISTERS}
  registers_per_block_limit: {REGISTERS}
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  device_vendor: "NVIDIA Corporation"
  platform_version: "Compute Capability {major}.{minor}"
  model_str: "{gpu.device_kind}"
  name: "{gpu.device_kind}"
  device_address_bits: 64
  pcie_bandwidth: 34359738368
  ecc_enabled: true
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  compile_time_toolkit_version: "13.0.0"
  dnn_version: "9.10.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{gpu.device_kind}"
"""
