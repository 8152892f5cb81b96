from __future__ import annotations

import pytest

from andes_jax.profiling.chunk import Chunk
from andes_jax.profiling.timeline import TimelineError, draw_timeline


def test_chunks_are_drawn(tmp_path):
    path = tmp_path / "timeline.png"
    draw_timeline(
        [Chunk(index * 0.1, "a", "realtime", 10, 1, 20.0, 0.0, 60.0 * (index % 2)) for index in range(9)], path
    )
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_cannot_be_drawn(tmp_path):
    with pytest.raises(TimelineError, match="no chunks"):
        draw_timeline([], tmp_path / "timeline.png")
