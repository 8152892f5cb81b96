"""API keys: every path needs one, except the health checks."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from andes_jax.remote.keys import fault_of_key
from server.errors import ApiError

OPEN_PATHS = frozenset({"/health", "/ready"})


class KeyCheck:
    """ASGI application that lets through calls with one of the keys, and those for OPEN_PATHS.

    No keys leave everything open. The key comes as `Authorization: Bearer KEY`. Raises ApiError (401).
    """

    def __init__(self, app: ASGIApp, keys: tuple[str, ...]) -> None:
        self.app = app
        self._keys = tuple(key.encode() for key in keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            fault = fault_of_key(given, self._keys)
            if fault is not None:
                raise ApiError(fault, status=401, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
        await self.app(scope, receive, send)
