"""Request bodies: read whole and bounded before anything else happens, then parsed more strictly than JSON asks.

Hypercorn holds at most ten unread messages of a call and then stops reading its whole connection, so a body is always
taken off the connection, also when the answer does not depend on it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from andes_jax.strict_json import parse_json
from server.context import ServerSettings
from server.errors import ApiError

LINGER_S = 2.0  # for how long the body of a call that is refused anyway is read
INLINE_BYTES = 64 * 1024  # larger bodies are parsed off the event loop


class BodyReader:
    """Reads bodies for one server, which together stay under `max_pending_body_bytes`."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._pending_bytes = 0

    async def read_json_object(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        """The call's body. Raises ApiError (400, 408, 413, 415, 503), or ClientDisconnect when the client left."""
        headers = dict(scope["headers"])
        _require_json(headers.get(b"content-type", b""))
        limit = self._settings.max_body_bytes
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and len(announced) < 20 and int(announced) > limit:
            raise _too_large(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                while True:
                    message = await _next(receive)
                    body += self._charged(message.get("body", b""))
                    if len(body) > limit:
                        raise _too_large(limit)
                    if not message.get("more_body", False):
                        break
            if len(body) <= INLINE_BYTES:
                return parse_object(bytes(body))
            return await asyncio.to_thread(parse_object, bytes(body))
        except TimeoutError:
            raise ApiError(
                f"The request body did not arrive within {self._settings.body_timeout_s:g} s.",
                status=408,
                code="body_timeout",
            ) from None
        finally:
            self._pending_bytes -= len(body)

    def _charged(self, part: bytes) -> bytes:
        if self._pending_bytes + len(part) > self._settings.max_pending_body_bytes:
            raise ApiError("Too many request bodies are being read.", status=503, code="engine_overloaded")
        self._pending_bytes += len(part)
        return part

    async def discard(self, receive: Receive) -> None:
        """Take what the client still sends, within bounds, so that it comes to read the answer."""
        taken = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while taken <= self._settings.max_body_bytes:
                    message = await _next(receive)
                    taken += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            return


async def _next(receive: Receive) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect()
    return message


def _require_json(content_type: bytes) -> None:
    kind = content_type.split(b";")[0].strip().lower()
    if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise ApiError(
            "The request body must be JSON, sent with the header 'Content-Type: application/json'.",
            status=415,
            code="unsupported_media_type",
        )


def _too_large(limit: int) -> ApiError:
    return ApiError(f"The request body is larger than {limit} bytes.", status=413, code="body_too_large")


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object that the body is; raises ApiError (400)."""
    try:
        value = parse_json(body)
    except ValueError as error:
        raise ApiError(f"The request body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise ApiError("The request body must be a JSON object.", code="invalid_json")
    return value
