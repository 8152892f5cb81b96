"""Files and batches as they are kept, and as OpenAI's API shows them. Times are whole Unix seconds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import orjson

Status = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]  # fmt: skip
UNFINISHED: tuple[Status, ...] = ("validating", "in_progress", "finalizing", "cancelling")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was uploaded, or that a batch has written."""

    id: str
    filename: str
    bytes: int
    purpose: str
    created_at: int
    expires_at: int | None = None

    def shown(self) -> dict[str, Any]:
        """OpenAI's file object."""
        return {"object": "file", **asdict(self), "status": "processed", "status_details": None}


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch. What is not yet known, or will never be, is None."""

    id: str
    model: str  # that its calls are answered by
    endpoint: str
    input_file_id: str
    completion_window: str
    created_at: int
    expires_at: int
    metadata: dict[str, str] | None = None
    output_seconds: int | None = None  # after which its output is deleted
    status: Status = "validating"
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: tuple[dict[str, Any], ...] = ()
    total: int = 0  # calls
    completed: int = 0
    failed: int = 0
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None

    def become(self, status: Status, now: int, **changes: Any) -> Self:
        """The batch in another status since now."""
        changes[f"{status}_at"] = now
        return replace(self, status=status, **changes)

    def with_file(self, name: str, file_id: str) -> Self:
        """The batch with a file of its rows: `name` is output_file_id or error_file_id."""
        changes: dict[str, Any] = {name: file_id}
        return replace(self, **changes)

    def shown(self) -> dict[str, Any]:
        """OpenAI's batch object."""
        shown = asdict(self)
        for ours in ("output_seconds", "total", "completed", "failed"):
            del shown[ours]
        shown["errors"] = {"object": "list", "data": self.errors} if self.errors else None
        shown["request_counts"] = {"total": self.total, "completed": self.completed, "failed": self.failed}
        return {"object": "batch", **shown}

    def pack(self) -> bytes:
        """As it is kept."""
        return orjson.dumps(self)

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """The way back."""
        fields = orjson.loads(packed)
        return cls(**{**fields, "errors": tuple(fields["errors"])})
