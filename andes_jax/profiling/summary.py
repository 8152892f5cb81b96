"""A log of chunks in numbers: how long each interval takes, how often it takes too long, and why."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np

from andes_jax.profiling.chunk import BOUNDS_MS, Chunk, ChunkError


@dataclass(frozen=True, slots=True)
class Interval:
    """One of the three intervals over the chunks of a tier."""

    name: str
    p50_ms: float
    p90_ms: float
    p99_ms: float
    longest_ms: float
    broke: int  # chunks that took longer than the bound
    causes: tuple[tuple[str, int], ...]  # of these, the most frequent first


@dataclass(frozen=True, slots=True)
class TierSummary:
    """The chunks of one tier, or of all."""

    tier: str
    requests: int
    chunks: int
    tokens: int
    bytes: int
    intervals: tuple[Interval, ...]


def read_chunks(path: Path) -> Iterator[Chunk]:
    """The chunks of a log, also of a gzipped one. Raises ChunkError with the number of a line that cannot be read."""
    with cast(IO[str], gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8")) as file:
        for number, line in enumerate(file, start=1):
            try:
                chunk = Chunk.parse(line)
            except ChunkError as error:
                raise ChunkError(f"{path}, line {number}: {error}") from None
            if chunk is not None:
                yield chunk


def summarise(chunks: Sequence[Chunk]) -> list[TierSummary]:
    """All chunks together, then each tier where there are several; nothing for no chunks."""
    if not chunks:
        return []
    tiers = sorted({chunk.tier for chunk in chunks})
    groups = [("all", chunks)]
    if len(tiers) > 1:
        groups += [(tier, [chunk for chunk in chunks if chunk.tier == tier]) for tier in tiers]
    return [_of_tier(name, group) for name, group in groups]


def _of_tier(name: str, chunks: Sequence[Chunk]) -> TierSummary:
    return TierSummary(
        tier=name,
        requests=len({chunk.request for chunk in chunks}),
        chunks=len(chunks),
        tokens=sum(chunk.tokens for chunk in chunks),
        bytes=sum(chunk.bytes for chunk in chunks),
        intervals=tuple(_interval(interval, chunks) for interval in BOUNDS_MS),
    )


def _interval(name: str, chunks: Iterable[Chunk]) -> Interval:
    values = np.array([chunk.interval_ms(name) for chunk in chunks])
    late = [chunk for chunk in chunks if name in chunk.broke]
    causes = Counter(kind(chunk.causes.get(name, "not known")) for chunk in late)
    p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
    return Interval(name, p50, p90, p99, float(values.max()), len(late), tuple(causes.most_common()))


def kind(cause: str) -> str:
    """A cause without what stands behind its colon, which is this chunk's alone."""
    return cause.partition(":")[0]
