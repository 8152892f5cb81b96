"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.services import Services


class ModelRoutes:
    """The one model that is served."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def _model(self) -> dict[str, Any]:
        context = self._services.context
        return {
            "id": context.model_id,
            "object": "model",
            "created": context.created_s,
            "owned_by": "andes-jax",
            "max_model_len": context.context_length,
        }

    async def listing(self, request: Request) -> Response:
        """All models."""
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def one(self, request: Request) -> Response:
        """One model; 404 for a name that is not served."""
        self._services.admission.check_model(request.path_params["model_id"])
        return JSONResponse(self._model())
