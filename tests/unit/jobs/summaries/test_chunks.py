"""Chunks fit, are about equal, and repeat whole sentences of their predecessors."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.jobs.summaries.chunks import chunks_of, pack
from andes_jax.jobs.summaries.splitting import Piece
from tests.unit.jobs.summaries.parts import count, story


async def test_chunks_of_a_long_text():
    text = story(20)
    chunks = await chunks_of(text, 120, 20, count)
    for chunk in chunks:
        assert chunk.tokens == await count(chunk.text) <= 120
    assert chunks[0].overlap == 0 and all(8 <= chunk.overlap <= 20 for chunk in chunks[1:])
    for before, chunk in zip(chunks, chunks[1:], strict=False):
        beginnings = (chunk.text[:size] for size in range(len(chunk.text), 0, -1))
        repeated = next(each for each in beginnings if before.text.endswith(each))
        assert await count(repeated) == chunk.overlap and repeated.startswith("Sentence")
    fresh = [chunk.tokens - chunk.overlap for chunk in chunks]
    assert sum(fresh) == await count(text) and max(fresh) <= 2 * min(fresh)


async def test_without_overlap_the_chunks_are_the_text():
    text = story(9) + "\n\n" + "天气。" * 40
    chunks = await chunks_of(text, 60, 0, count)
    assert "".join(chunk.text for chunk in chunks) == text


@settings(deadline=None)
@given(st.lists(st.integers(1, 50), max_size=30), st.integers(50, 120))
def test_packs_keep_order_and_bounds_and_shrink(sizes, most):
    groups = pack([Piece("x", size) for size in sizes], most)
    assert [piece.tokens for group in groups for piece in group] == sizes
    assert all(group and sum(piece.tokens for piece in group) <= most for group in groups)
    if len(sizes) > 1 and max(sizes) <= most // 2:
        assert len(groups) < len(sizes)
