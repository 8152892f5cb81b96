"""Step times from bytes moved and operations done over a chip's ceilings: a model of what a tuned engine can reach.

A step is one program: its linear layers take all tokens of the step together, as in Sarathi-Serve (arXiv 2403.02310).

    step = linear + decode attention + prefill attention + overhead, and not less than its page copies
    linear = max(weight bytes / bandwidth, operations / compute)
        weights: all layers and the output projection, read once a step
        operations: 2 * layer weights * tokens + 2 * output weights * sequences
    decode attention = positions attended * bytes of a token's keys and values / bandwidth
    prefill attention, for each slice = max(4 * layers * heads * head_dim * pairs / attention compute,
                                            positions * bytes of a token's keys and values / bandwidth)
        pairs of query and key: tokens * positions before them + tokens * (tokens + 1) / 2
    overhead = STEP_S + layers * LAYER_S
    copies = bytes / host link; they run on engines of their own beside the step, one direction after the other

Efficiencies are the same for all chips. They are rounded figures of what well-made kernels reach, not measurements of
one system:
    bandwidth 0.8 of the data sheet. Streaming a 7B model's weights in bfloat16 at batch 1, gpt-fast reaches about 0.7
    of an A100-80GB's (pytorch.org/blog/accelerating-generative-ai-2), plain copies about 0.9.
    compute 0.7: large bfloat16 products lie between about 0.65 (H100, whose clock power limits) and 0.85 (A100).
    attention compute 0.5: FlashAttention-2 reaches up to 0.73 on an A100 (arXiv 2307.08691) and 0.35 on an H100,
    FlashAttention-3 up to 0.75 on an H100 (arXiv 2407.08608); causal and short slices get less.
    host link 0.8 of PCIe's rate, as pinned copies of several MiB get.
LAYER_S is ten kernels of a layer at about 2.5 µs each for a start and a tail, inside one launch of the whole step.
"""

from __future__ import annotations

import numpy as np

from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.hardware import BYTES_PER_NUMBER, Chip, ModelSize

BANDWIDTH, COMPUTE, ATTENTION_COMPUTE, HOST_LINK = 0.8, 0.7, 0.5, 0.8
STEP_S, LAYER_S = 0.3e-3, 25e-6
MEMORY_SHARE = 0.9  # of a chip's memory that an engine takes, vLLM's default
WORKSPACE_BYTES = 0.5e9  # of that, for activations


class RooflineTimes:
    """`MachineTimes` of a model on a chip."""

    def __init__(self, chip: Chip, model: ModelSize, page_tokens: int) -> None:
        bandwidth, compute = chip.bytes_per_s * BANDWIDTH, chip.operations_per_s * COMPUTE
        self._weights_s = BYTES_PER_NUMBER * (model.layer_parameters + model.head_parameters) / bandwidth
        self._token_s = 2 * model.layer_parameters / compute
        self._sequence_s = 2 * model.head_parameters / compute
        self._position_s = model.kv_token_bytes / bandwidth
        self._pair_s = 4 * model.layers * model.heads * model.head_dim / (chip.operations_per_s * ATTENTION_COMPUTE)
        self._overhead_s = STEP_S + model.layers * LAYER_S
        self.copy_page_s = page_tokens * model.kv_token_bytes / (chip.host_bytes_per_s * HOST_LINK)

    def seconds(self, work: StepWork) -> float:
        """See `StepTimes.seconds`. A step without tokens takes as long as its copies."""
        decodes, context, prefills, copied_pages = work
        copies_s = copied_pages * self.copy_page_s
        if not decodes and not prefills:
            return copies_s
        tokens, attention_s = decodes, context * self._position_s
        for count, before in prefills:
            tokens += count
            pairs_s = count * (before + (count + 1) / 2) * self._pair_s
            positions_s = (before + count) * self._position_s
            attention_s += pairs_s if pairs_s > positions_s else positions_s
        linear_s = tokens * self._token_s + (decodes + len(prefills)) * self._sequence_s
        if linear_s < self._weights_s:
            linear_s = self._weights_s
        step_s = linear_s + attention_s + self._overhead_s
        return step_s if step_s > copies_s else copies_s

    def decode_seconds(self, decodes: int, contexts: np.ndarray) -> np.ndarray:
        """See `MachineTimes.decode_seconds`."""
        linear_s = max(self._weights_s, decodes * (self._token_s + self._sequence_s))
        return np.asarray(contexts) * self._position_s + (linear_s + self._overhead_s)


def kv_capacity(chip: Chip, model: ModelSize) -> int:
    """Tokens whose keys and values fit beside the weights; 0 or less when the weights alone do not fit.

    OPT-13B on an A100-40GB gets about 14,000, where Kwon et al. (arXiv 2309.06180, table 1) count 15,700 in 12 GB.
    """
    return int((chip.memory_bytes * MEMORY_SHARE - WORKSPACE_BYTES - model.weight_bytes) // model.kv_token_bytes)
