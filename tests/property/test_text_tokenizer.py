"""Any text survives the way to ids and back, and users' text never becomes a control token."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andes_jax.model.checkpoints.gguf_file import open_gguf
from andes_jax.text.reply import ReplyText
from andes_jax.text.tokenizer import Tokenizer, from_gguf

# SmolLM2 has no token for these bytes: as in transformers, characters that need them are dropped from prompts.
MISSING = bytes([0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2])


def spellable(character: str) -> bool:
    return not any(byte in MISSING for byte in character.encode())


words = st.sampled_from(
    ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "user\n", "    ", "\u2581", "<0x41>", "123", "한"]
)
texts = st.lists(
    words | st.text(st.characters(exclude_categories=["Cs"]).filter(spellable), max_size=8), max_size=8
).map("".join)


@cache
def tokenizer_of(path: Path) -> Tokenizer:
    return from_gguf(open_gguf(path).metadata)


@pytest.fixture
def smollm2(embedded_gguf: Path) -> Tokenizer:
    return tokenizer_of(embedded_gguf)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=texts, trusted=st.booleans())
def test_text_survives_encoding(smollm2: Tokenizer, text: str, trusted: bool) -> None:
    ids = smollm2.encode(text, add_special=False, parse_special=trusted)
    assert smollm2.decode(ids, skip_special=False) == text
    assert all(0 <= token_id < smollm2.vocab_size for token_id in ids)
    if not trusted:
        assert not any(map(smollm2.table.is_special, ids))
    reply = ReplyText(smollm2.table, skip_special=False)
    assert "".join([reply.push([token_id]).text for token_id in ids]) + reply.finish() == text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ids=st.lists(st.integers(0, 49151), max_size=20), skip=st.booleans())
def test_any_ids_decode_and_stream_alike(smollm2: Tokenizer, ids: list[int], skip: bool) -> None:
    reply = ReplyText(smollm2.table, skip_special=skip)
    streamed = "".join([reply.push([token_id]).text for token_id in ids]) + reply.finish()
    assert streamed == smollm2.decode(ids, skip)
    streamed.encode()  # fit for a reply
