"""One chunk of a stream on its way from the engine to the client, and the line of the log that tells of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from andes_jax.failure import UserError

TAG = "STREAM_CHUNK"
BOUNDS_MS = {"generation": 100.0, "send": 50.0, "wait": 30.0}
"""What each interval may take."""


class ChunkError(UserError):
    """A line of a log tells of a chunk, but not as this version writes it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What left for a client at once. `at_s` is the wall clock's (Unix time), intervals are in milliseconds.

    A chunk with several tokens has the longest interval of any of them.
    """

    at_s: float
    request: str  # the call's id
    tier: str
    bytes: int
    tokens: int
    generation_ms: float  # steps worked on a token
    wait_ms: float  # no step did, from the token before it on, or from the request's arrival
    send_ms: float  # from a token's being known to its having been handed to the kernel
    causes: dict[str, str] = field(default_factory=dict)  # likely, of each interval that broke its bound

    @property
    def broke(self) -> tuple[str, ...]:
        """The intervals that took longer than they may."""
        return tuple(name for name, bound in BOUNDS_MS.items() if self.interval_ms(name) > bound)

    def interval_ms(self, name: str) -> float:
        """An interval by its name in BOUNDS_MS."""
        value: float = getattr(self, f"{name}_ms")
        return value

    def line(self) -> str:
        """As the log has it."""
        return f"{TAG} {orjson.dumps(asdict(self) | {'broke': self.broke}).decode()}"

    @classmethod
    def parse(cls, line: str) -> Chunk | None:
        """The chunk that a line of a log tells of, whatever stands before it; None for another line.

        Raises ChunkError for a line that cannot be read.
        """
        _, tag, text = line.partition(f"{TAG} ")
        if not tag:
            return None
        try:
            fields: dict[str, Any] = orjson.loads(text)
            fields.pop("broke")
            return cls(**fields)
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise ChunkError(
                f"a line with {TAG} cannot be read ({error}); is it cut off, or of another version?"
            ) from None
