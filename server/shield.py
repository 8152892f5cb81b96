"""The outermost layer of ours: every fault becomes an OpenAI error object, and every answer is counted once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.body import BodyReader
from server.errors import ApiError, internal_error, quoted
from server.metrics import Metrics

logger = logging.getLogger("andes_jax.server")

CLIENT_LEFT = "disconnected"  # in place of a status, when there was nobody to answer


class Shield:
    """ASGI application that answers the errors another raises. Before it answers early it takes the request's body."""

    def __init__(self, app: ASGIApp, metrics: Metrics, bodies: BodyReader, paths: Mapping[Any, str]) -> None:
        self.app = app
        self._paths = paths  # of each endpoint
        self._metrics = metrics
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        call = _Observed(receive, send)
        try:
            try:
                await self.app(scope, call.receive, call.send)
            except ApiError as error:
                await self._answer(error, scope, call)
            except HTTPException as error:
                await self._answer(_from_routing(error, scope), scope, call)
            except ClientDisconnect:
                return
            except Exception:
                logger.exception("a call of %s failed", self._path(scope))
                await self._answer(internal_error(), scope, call)
        finally:
            self._metrics.http_requests.labels(self._path(scope), call.status or CLIENT_LEFT).inc()

    async def _answer(self, error: ApiError, scope: Scope, call: _Observed) -> None:
        if call.status is not None:
            raise RuntimeError("the reply had begun")  # the transport resets the stream
        if not call.body_read:
            try:
                await self._bodies.discard(call.receive)
            except ClientDisconnect:
                return
        await error.response()(scope, call.receive, call.send)

    def _path(self, scope: Scope) -> str:
        """The route's path, so that the metrics' label has few values."""
        return self._paths.get(scope.get("endpoint"), "unknown")


class _Observed:
    """A call's two directions, and what has gone over them."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.status: str | None = None
        self.body_read = False

    async def receive(self) -> Message:
        message = await self._receive()
        if not message.get("more_body", False):
            self.body_read = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = str(message["status"])
        await self._send(message)


def _from_routing(error: HTTPException, scope: Scope) -> ApiError:
    where = f"{quoted(scope['method'], 16)} {quoted(scope['path'], 200)}"
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code)
    message = {404: f"Unknown request URL: {where}.", 405: f"Not allowed here: {where}."}.get(error.status_code)
    return ApiError(message or error.detail, status=error.status_code, code=code, headers=error.headers)
