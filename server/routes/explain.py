"""GET /v1/andes/requests/{id}/explain."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from andes_jax.engine.contract import EngineAway
from server.admission import request_id_of
from server.errors import ApiError, quoted
from server.services import Services


class ExplainRoute:
    """Why requests ran or waited, in the engine's own records."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def explain(self, request: Request) -> Response:
        """The record of one request, or those of all requests of a call under its id."""
        asked = request.path_params["request_id"]
        try:
            record = await asyncio.to_thread(self._find, asked)  # an engine elsewhere is waited for
        except EngineAway:
            raise ApiError("The engine is not running.", status=503, code="engine_failed") from None
        return Response(orjson.dumps(record), media_type="application/json")

    def _find(self, asked: str) -> dict[str, Any]:
        record = self._services.context.engine.explain(asked)
        if record is None:
            records = self._of_call(asked)
            if not records:
                raise ApiError(
                    f"Nothing is known of a request {quoted(asked)}, or no longer.",
                    status=404,
                    code="request_not_found",
                    param="id",
                )
            record = {"id": asked, "requests": records}
        return record

    def _of_call(self, call_id: str) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for index in count():
            record = self._services.context.engine.explain(request_id_of(call_id, index))
            if record is None:
                return records
            records.append(record)
        return records
