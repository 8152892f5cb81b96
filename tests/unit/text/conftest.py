"""Real vocabularies, loaded once for all tests."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from andes_jax.model.checkpoints.gguf_file import open_gguf
from andes_jax.text.tokenizer import Tokenizer, from_gguf

VOCABULARIES = Path(__file__).parents[2] / "data" / "tokenizers"


@pytest.fixture(scope="session")
def ggml_metadata(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Metadata of a vocabulary in tests/data/tokenizers, by name; a copy of its own for each call."""

    @cache
    def read(name: str) -> dict[str, Any]:
        unpacked = tmp_path_factory.mktemp("vocabularies") / f"{name}.gguf"
        unpacked.write_bytes(gzip.decompress((VOCABULARIES / f"ggml-vocab-{name}.gguf.gz").read_bytes()))
        return open_gguf(unpacked).metadata

    return lambda name: dict(read(name))


@pytest.fixture(scope="session")
def ggml_tokenizer(ggml_metadata: Callable[[str], dict[str, Any]]) -> Callable[[str], Tokenizer]:
    """The tokenizer of such a vocabulary."""
    return cache(lambda name: from_gguf(ggml_metadata(name)))


@pytest.fixture(scope="session")
def smollm2_metadata(embedded_gguf: Path) -> dict[str, Any]:
    """Metadata of the embedded model's GGUF."""
    return open_gguf(embedded_gguf).metadata


@pytest.fixture(scope="session")
def smollm2(smollm2_metadata: dict[str, Any]) -> Tokenizer:
    return from_gguf(smollm2_metadata)
