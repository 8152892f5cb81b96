"""GPUs and models as the numbers that bound their speed, from their makers' documents."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_NUMBER = 2  # bfloat16: weights, activations, keys and values


@dataclass(frozen=True, slots=True)
class Chip:
    """Ceilings of one GPU, from NVIDIA's data sheets; dense bfloat16, not the sparse figure twice as large."""

    memory_bytes: float  # as the driver shows it
    bytes_per_s: float  # of its memory
    operations_per_s: float  # bfloat16 with float32 sums, two for a multiply-add
    host_bytes_per_s: float  # PCIe x16, each way
    max_sequences: int  # that are usually run at once on it
    step_tokens: int  # that are usually computed in one step


CHIPS = {
    "a10g": Chip(23.7e9, 600e9, 70e12, 31.5e9, 256, 512),  # the variant in AWS; an A10 has 125e12
    "a100-40gb": Chip(42.3e9, 1555e9, 312e12, 31.5e9, 256, 512),  # SXM4, PCIe 4
    "a100-80gb": Chip(85.0e9, 2039e9, 312e12, 31.5e9, 256, 1024),  # SXM4, PCIe 4
    "h100": Chip(85.0e9, 3350e9, 989e12, 63e9, 512, 2048),  # SXM5 80 GB, PCIe 5
    "h200": Chip(150.1e9, 4800e9, 989e12, 63e9, 512, 2048),  # SXM5 141 GB, PCIe 5
}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Sizes of a decoder, from its published configuration. Biases and norms are too small to count."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_position: int
    tied: bool = False  # the output projection is the embedding
    mlp_products: int = 3  # 2 without a gate

    @property
    def layer_parameters(self) -> int:
        """Weights of all layers."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        return self.layers * (attention + self.mlp_products * self.hidden * self.intermediate)

    @property
    def head_parameters(self) -> int:
        """Weights of the output projection."""
        return self.vocab * self.hidden

    @property
    def weight_bytes(self) -> int:
        """Memory that the weights take."""
        embeddings = self.head_parameters * (1 if self.tied else 2)
        return BYTES_PER_NUMBER * (self.layer_parameters + embeddings)

    @property
    def kv_token_bytes(self) -> int:
        """Memory that one token's keys and values take."""
        return BYTES_PER_NUMBER * 2 * self.layers * self.kv_heads * self.head_dim


MODELS = {
    "opt-13b": ModelSize(40, 5120, 20480, 40, 40, 128, 50272, 2048, tied=True, mlp_products=2),
    "llama-2-13b": ModelSize(40, 5120, 13824, 40, 40, 128, 32000, 4096),
    "llama-3-8b": ModelSize(32, 4096, 14336, 32, 8, 128, 128256, 8192),
    "qwen3-8b": ModelSize(36, 4096, 12288, 32, 8, 128, 151936, 40960),
    "mistral-7b": ModelSize(32, 4096, 14336, 32, 8, 128, 32000, 32768),  # v0.2 and later: no sliding window
    "smollm2-135m": ModelSize(30, 576, 1536, 9, 3, 64, 49152, 8192, tied=True),
}
