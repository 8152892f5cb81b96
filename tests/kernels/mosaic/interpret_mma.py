"""What the interpreter of Mosaic GPU lacks for Ampere: plgpu.mma on the CPU. Importing this module adds it.

The interpreter evaluates what it does not know by jax's own rules for the CPU, so that a rule there is enough.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax._src.pallas.mosaic_gpu.primitives import mma_p
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.interpreters import mlir

INTERPRET = plgpu.InterpretGPUParams(detect_races=True)


def _mma(sums: jax.Array, left: jax.Array, right: jax.Array) -> jax.Array:
    return sums + jnp.dot(left, right, preferred_element_type=sums.dtype)


mlir.register_lowering(mma_p, mlir.lower_fun(_mma, multiple_results=False), platform="cpu")
