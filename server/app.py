"""The ASGI application."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from server.auth import KeyCheck
from server.batches.keeping import Keeping
from server.context import ServerContext
from server.lifecycle import Gate
from server.routes import generation_routes, routes
from server.services import Services
from server.shield import Shield
from server.transport import TransportExtension


class Application:
    """Serves one engine's model. Belongs to the event loop of its first call."""

    def __init__(self, context: ServerContext) -> None:
        self.services = Services.of(context)
        settings = context.settings
        calls = generation_routes(self.services)
        self.batches = Keeping(context, self._shielded(Router(calls), calls, "batch "))
        self.routes = [*calls, *routes(self.services, self.batches)]
        app: ASGIApp = KeyCheck(Router(self.routes, redirect_slashes=False), settings.api_keys)
        app = Gate(app, self.services.lifecycle)
        app = self._shielded(app, self.routes)
        if settings.cors_origins:
            app = CORSMiddleware(
                app,
                allow_origins=settings.cors_origins,
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"],
                max_age=3600,
            )
        self._app = TransportExtension(app)

    def _shielded(self, app: ASGIApp, routes: list[Route], prefix: str = "") -> ASGIApp:
        """`prefix` is before the paths in the metrics."""
        paths = {route.endpoint: prefix + route.path_format for route in routes}
        return Shield(app, self.services.metrics, self.services.bodies, paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # with it, the router raises what it would otherwise answer in its own words
        await self._app(scope, receive, send)


def create_app(context: ServerContext) -> Application:
    """The application that serves the context's model."""
    return Application(context)
