from __future__ import annotations

import gzip

import pytest

from andes_jax.profiling.chunk import Chunk, ChunkError
from andes_jax.profiling.summary import read_chunks, summarise


def chunk(index: int, tier: str = "realtime", **causes: str) -> Chunk:
    waits = 40.0 if "wait" in causes else 1.0
    return Chunk(index * 0.1, f"chat-{index % 2}", tier, 100, 2, 20.0 + index, waits, 0.5, causes)


def test_each_tier_and_all_together_with_the_causes_of_what_broke():
    chunks = [chunk(index) for index in range(8)]
    chunks += [chunk(8, "batch", wait="preempted: for a"), chunk(9, "batch", wait="preempted: for b")]
    together, batch, realtime = summarise(chunks)
    assert [each.tier for each in (together, batch, realtime)] == ["all", "batch", "realtime"]
    assert (together.chunks, together.tokens, together.bytes, together.requests) == (10, 20, 1000, 2)
    generation, send, wait = together.intervals
    assert (generation.name, send.name, wait.name) == ("generation", "send", "wait")
    assert generation.p50_ms == pytest.approx(24.5) and generation.longest_ms == 29.0 and generation.broke == 0
    assert wait.broke == 2 and wait.causes == (("preempted", 2),)
    assert [interval.broke for interval in realtime.intervals] == [0, 0, 0]


def test_one_tier_is_not_told_twice():
    assert [each.tier for each in summarise([chunk(0)])] == ["all"]
    assert summarise([]) == []


@pytest.mark.parametrize("name", ["server.log", "server.log.gz"])
def test_a_log_is_read_with_what_else_is_in_it(tmp_path, name):
    path = tmp_path / name
    lines = ["model is ready", f"INFO andes_jax.stream: {chunk(1).line()}", "", chunk(2).line()]
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert list(read_chunks(path)) == [chunk(1), chunk(2)]


def test_a_line_that_is_cut_off_is_named(tmp_path):
    path = tmp_path / "server.log"
    path.write_text(f"{chunk(1).line()}\n{chunk(2).line()[:-9]}\n")
    with pytest.raises(ChunkError, match=r"server\.log, line 2"):
        list(read_chunks(path))
