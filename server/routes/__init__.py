"""What is served at which path."""

from __future__ import annotations

from starlette.routing import Route

from server.routes.explain import ExplainRoute
from server.routes.generation import ChatEndpoint, CompletionEndpoint
from server.routes.models import ModelRoutes
from server.routes.operations import OperationRoutes
from server.routes.tokens import TokenRoutes
from server.services import Services


def routes(services: Services) -> list[Route]:
    """The router table."""
    models = ModelRoutes(services)
    tokens = TokenRoutes(services)
    operations = OperationRoutes(services)
    return [
        Route("/", operations.index, methods=["GET"]),
        Route("/health", operations.health, methods=["GET"]),
        Route("/ready", operations.ready, methods=["GET"]),
        Route("/metrics", operations.metrics, methods=["GET"]),
        Route("/v1/models", models.listing, methods=["GET"]),
        Route("/v1/models/{model_id:path}", models.one, methods=["GET"]),
        Route("/v1/chat/completions", ChatEndpoint(services), methods=["POST"]),
        Route("/v1/completions", CompletionEndpoint(services), methods=["POST"]),
        Route("/v1/andes/requests/{request_id}/explain", ExplainRoute(services).explain, methods=["GET"]),
        Route("/tokenize", tokens.tokenize, methods=["POST"]),
        Route("/detokenize", tokens.detokenize, methods=["POST"]),
    ]
