"""What operators ask: is it alive, can it generate, what has it done."""

from __future__ import annotations

import asyncio

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.errors import RETRY_AFTER_S
from server.services import Services


class OperationRoutes:
    """Health checks need no key; everything else does."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def index(self, request: Request) -> Response:
        """What this is, for whoever opens it in a browser."""
        return JSONResponse(
            {
                "name": "andes-jax",
                "model": self._services.context.model_id,
                "endpoints": [
                    "/v1/chat/completions",
                    "/v1/completions",
                    "/v1/models",
                    "/v1/files",
                    "/v1/batches",
                    "/v1/andes/requests/{request_id}/explain",
                    "/tokenize",
                    "/detokenize",
                    "/health",
                    "/ready",
                    "/metrics",
                ],
            }
        )

    async def health(self, request: Request) -> Response:
        """200 as long as the process answers."""
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """200 when a request sent now would be served, otherwise 503 and why not."""
        state = "draining" if self._services.lifecycle.draining else self._services.context.engine.state
        if state == "ready":
            return JSONResponse({"status": state})
        return JSONResponse({"status": state}, 503, {"retry-after": str(RETRY_AFTER_S)})

    async def metrics(self, request: Request) -> Response:
        """Prometheus' text format."""
        text = await asyncio.to_thread(self._services.metrics.render)  # an engine elsewhere is waited for
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})
