"""What is served at which path."""

from __future__ import annotations

from starlette.routing import Route

from server.batches.keeping import Keeping
from server.routes.batches import BatchRoutes
from server.routes.explain import ExplainRoute
from server.routes.files import FileRoutes
from server.routes.generation import ChatEndpoint, CompletionEndpoint
from server.routes.models import ModelRoutes
from server.routes.operations import OperationRoutes
from server.routes.tokens import TokenRoutes
from server.services import Services


def generation_routes(services: Services) -> list[Route]:
    """The calls that a batch may hold."""
    return [
        Route("/v1/chat/completions", ChatEndpoint(services), methods=["POST"]),
        Route("/v1/completions", CompletionEndpoint(services), methods=["POST"]),
    ]


def routes(services: Services, keeping: Keeping) -> list[Route]:
    """All others."""
    files = FileRoutes(services, keeping)
    batches = BatchRoutes(services, keeping)
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
        Route("/v1/files", files.create, methods=["POST"]),
        Route("/v1/files", files.listing, methods=["GET"]),
        Route("/v1/files/{file_id}", files.one, methods=["GET"]),
        Route("/v1/files/{file_id}", files.delete, methods=["DELETE"]),
        Route("/v1/files/{file_id}/content", files.content, methods=["GET"]),
        Route("/v1/batches", batches.create, methods=["POST"]),
        Route("/v1/batches", batches.listing, methods=["GET"]),
        Route("/v1/batches/{batch_id}", batches.one, methods=["GET"]),
        Route("/v1/batches/{batch_id}/cancel", batches.cancel, methods=["POST"]),
        Route("/v1/andes/requests/{request_id}/explain", ExplainRoute(services).explain, methods=["GET"]),
        Route("/tokenize", tokens.tokenize, methods=["POST"]),
        Route("/detokenize", tokens.detokenize, methods=["POST"]),
    ]
