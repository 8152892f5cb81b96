"""The explain record of a request as journal.py writes it, read back from JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Event(_Read):
    """One event of a record with the details that can be told; those of other events are None."""

    at_s: float  # from arrival
    event: str
    tier: str | None = None
    prompt_tokens: int | None = None
    tokens: int | None = None  # drawn so far; when dropped: computed so far
    pages: int | None = None
    by: str | None = None  # for whom it lost its place
    waiting: int | None = None  # others
    running: int | None = None  # others
    terms: dict[str, float | None] = {}  # what its policy went by; None is infinity, which JSON lacks
    computed: int = 0  # tokens whose keys and values were there when it started
    kept: bool = False  # in place
    loaded_pages: int = 0
    reason: str | None = None


class Wait(_Read):
    """A stretch without a slot, in seconds from arrival."""

    from_s: float
    until_s: float
    lacked: dict[str, float] = Field(default={}, alias="for")  # seconds of it by cause; empty: not recorded


class Record(_Read):
    """What is known of one request."""

    id: str
    events: list[Event] = Field(min_length=1)
    waits: list[Wait] | None = None  # None: to be found from the events
