"""What suits a device."""

from __future__ import annotations

from andes_jax.runtime import device
from andes_jax.runtime.device import Device, current_device

GIB = 2**30


def test_this_machine_is_described():
    here = current_device()
    assert here.platform == "cpu" and here.kind
    assert 0 < here.free_bytes <= here.memory_bytes
    assert 0 < here.pool_budget(0) <= here.memory_bytes // 8


def test_auto_is_float32_on_cpus_without_bfloat16_products(monkeypatch):
    cpu, gpu = Device("cpu", "a CPU", GIB, GIB), Device("cuda", "a GPU", GIB, GIB)
    monkeypatch.setattr(device, "has_bfloat16_products", lambda: False)
    assert cpu.dtype("auto").name == "float32" and gpu.dtype("auto").name == "bfloat16"
    monkeypatch.setattr(device, "has_bfloat16_products", lambda: True)
    assert cpu.dtype("auto").name == "bfloat16"
    assert cpu.dtype("float32").name == "float32", "what is asked for is taken"


def test_pages_and_pool_sizes():
    assert Device("cpu", "a CPU", 8 * GIB, 8 * GIB).page_tokens == 64
    assert Device("cuda", "a GPU", 8 * GIB, 8 * GIB).page_tokens == 16
    assert Device("cpu", "a CPU", 8 * GIB, 8 * GIB).pool_budget(GIB) == GIB
    assert Device("cpu", "a CPU", 8 * GIB, GIB).pool_budget(GIB) == GIB // 2, "a full machine gets a smaller pool"
    gpu = Device("cuda", "a GPU", 8 * GIB, 4 * GIB)
    assert gpu.pool_budget(3 * GIB) == int(GIB * device.GPU_POOL_SHARE), "of what the weights leave"
    assert gpu.pool_budget(5 * GIB) == 0
