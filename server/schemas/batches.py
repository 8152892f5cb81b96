"""The body of POST /v1/batches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from server.schemas.base import Body

WINDOW_S = {"24h": 24 * 3600}
LONGEST_KEPT_S = 30 * 24 * 3600

MetadataKey = Annotated[str, Field(max_length=64)]
MetadataValue = Annotated[str, Field(max_length=512)]


class ExpiresAfter(Body):
    """When a file is deleted."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=3600, le=LONGEST_KEPT_S)]


class BatchBody(Body):
    """What a batch is made of."""

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/completions"]
    completion_window: Literal["24h"]
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)] | None = None
    output_expires_after: ExpiresAfter | None = None
