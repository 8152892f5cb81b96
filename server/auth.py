"""API keys: every path needs one, except the health checks."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

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
        if scope["type"] == "http" and self._keys and scope["path"] not in OPEN_PATHS:
            self._check(scope)
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        challenge = {"www-authenticate": "Bearer"}
        if not given:
            raise ApiError(
                "You didn't provide an API key: send the header 'Authorization: Bearer YOUR_KEY'.",
                status=401,
                code="invalid_api_key",
                headers=challenge,
            )
        scheme, _, key = given[0].partition(b" ")
        # Every key is compared, in constant time each, so that the time taken tells nothing.
        matches = [hmac.compare_digest(key.strip(), known) for known in self._keys]
        if len(given) != 1 or scheme.lower() != b"bearer" or not any(matches):
            raise ApiError("Incorrect API key provided.", status=401, code="invalid_api_key", headers=challenge)
