from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.profiling.chunk import BOUNDS_MS, Chunk, ChunkError

times = st.floats(0, 1e6, allow_nan=False)
chunks = st.builds(
    Chunk,
    at_s=times,
    request=st.text(max_size=40),
    tier=st.sampled_from(["realtime", "streaming", "batch"]),
    bytes=st.integers(0, 1 << 20),
    tokens=st.integers(1, 100),
    generation_ms=times,
    wait_ms=times,
    send_ms=times,
    causes=st.dictionaries(st.sampled_from(list(BOUNDS_MS)), st.text(max_size=40)),
)


@given(chunks, st.sampled_from(["", "2026-01-01 12:00:00,000 INFO andes_jax.stream: "]))
def test_what_is_written_is_read(chunk, before):
    line = before + chunk.line()
    assert "\n" not in line and Chunk.parse(line) == chunk and Chunk.parse(line + "\n") == chunk


def test_a_bound_is_broken_above_it():
    chunk = Chunk(0.0, "a", "batch", 1, 1, generation_ms=100.0, wait_ms=30.1, send_ms=50.1)
    assert chunk.broke == ("send", "wait")
    assert '"broke":["send","wait"]' in chunk.line()


def test_other_lines_are_none():
    assert Chunk.parse("INFO andes_jax.server: shutting down: 3 calls are running") is None
    assert Chunk.parse("") is None


@pytest.mark.parametrize(
    "text", ['{"at_s": 1', "[]", "7", "{}", '{"broke": [], "tokens": 1}', '{"broke": [], "new": 1}']
)
def test_lines_that_cannot_be_read_are_errors(text):
    with pytest.raises(ChunkError, match="STREAM_CHUNK"):
        Chunk.parse(f"STREAM_CHUNK {text}")
