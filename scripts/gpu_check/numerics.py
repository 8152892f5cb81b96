"""Whether the kernels are right on this device: against float64 on the host, for a sample of rows of every spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from kernels_pallas.paged_attention.mosaic.arg_specs import DecodeSpec, Spec
from scripts.gpu_check.inputs import Inputs, exact, make_inputs
from scripts.gpu_check.kernels import cut_as, kernel, lowered_as, tuned
from scripts.gpu_check.setting import Setting

ROWS, QUERIES = 4, 16  # sampled of a spec, of a row
TOLERANCE = {"bfloat16": 3e-3, "float16": 1e-3}  # of the norm, as tests of the interpreted kernels have it


def items(setting: Setting) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every spec for every family of kernels that runs here.

    They come in rounds, so that short time leaves nothing out altogether: the first round has a decode and a prefill of
    every model for every family, the device's own family first.
    """
    rounds: Counter[tuple[str, str, type]] = Counter()
    found: list[tuple[int, str, Spec]] = []
    for family in setting.families:
        for spec in setting.specs:
            kind = (family, spec.model, type(spec))
            found.append((rounds[kind], family, spec))
            rounds[kind] += 1
    found.sort(key=lambda entry: entry[0])
    return {f"{family} {spec.name}": partial(check, spec, family, setting) for _, family, spec in found}


def check(spec: Spec, family: str, setting: Setting) -> dict[str, Any]:
    """Errors of a spec's kernel over ragged rows, half of whose blocks are runs of pages."""
    config = tuned(spec, cut_as(family, setting))
    inputs = make_inputs(spec, config.block_tokens, ragged=True, pages="mixed")
    with lowered_as(family, setting):
        run = jax.jit(kernel(spec, family, config, setting)).lower(*inputs.arguments).compile()
    return errors(inputs, run(*inputs.arguments)) | {"config": repr(config)}


def errors(inputs: Inputs, out: jax.Array) -> dict[str, Any]:
    """Of attention `out` for these inputs: relative (norm over norm, the worst row's) and absolute, over a sample."""
    spec = inputs.spec
    relative, absolute = [], []
    sampled = np.unique(np.linspace(0, spec.rows - 1, ROWS).astype(int))
    for number, row in enumerate(sampled[inputs.count[sampled] > 0]):
        head = number % spec.heads.kv_heads
        offsets = np.unique(np.linspace(0, inputs.count[row] - 1, QUERIES).astype(int))
        got = out[row, head][None] if isinstance(spec, DecodeSpec) else out[row, offsets, head]
        want = exact(inputs, int(row), head, offsets)
        difference = np.asarray(got, np.float64) - want
        relative.append(np.linalg.norm(difference) / np.linalg.norm(want))
        absolute.append(np.abs(difference).max())
    worst, largest = float(np.max(relative)), float(np.max(absolute))
    right = worst <= TOLERANCE[spec.dtype] and bool(np.isfinite(out).all())
    if isinstance(spec, DecodeSpec):
        right = right and not np.asarray(out)[inputs.count == 0].any()
    return {"relative_error": worst, "largest_error": largest, "right": right}
