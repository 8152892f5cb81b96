"""Calls to a model for a job: to a server by URL, or to an engine in this process, and again where that may help."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import orjson

from andes_jax.failure import UsageError, UserError
from andes_jax.jobs.waiting import Patience

OWNER = "andes-jax"  # as andes-jax says in its list of models
CONNECT_S = 10.0  # that a server gets to take a connection
_AWAY = (429, 502, 503, 504)  # states that pass
_FAULT_TRIES = 3  # for calls that the server fails at
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),  # so that a machine that is gone is noticed however long replies take
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
]


class ServerLost(UserError):
    """The server was away for longer than the job waits. What was done is kept."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call came to: 200 and OpenAI's reply object, or another status and an error object."""

    status: int
    body: dict[str, Any]
    request_id: str

    @property
    def final(self) -> bool:
        """Whether asking again would give the same: all but faults of the server."""
        return self.status < 500 and self.status != 429


class Client(Protocol):
    """What jobs ask."""

    async def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Make a call in the batch tier. Raises ServerLost."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """What a server says of the model it serves."""

    name: str
    context_tokens: int | None  # of prompt and reply together; None: the server does not say
    native: bool  # it is andes-jax: it knows tiers and counts tokens


def server_http(url: str, api_key: str | None = None) -> httpx.AsyncClient:
    """Connections to a server of the OpenAI API; the URL may end in /v1. Raises UsageError."""
    base = url.rstrip("/").removesuffix("/v1")
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"--server {url!r} must begin with http:// or https://")
    headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
    transport = httpx.AsyncHTTPTransport(
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None), socket_options=_KEEP_ALIVE
    )
    timeout = httpx.Timeout(None, connect=CONNECT_S)  # a batch reply may take long: others come first
    try:
        return httpx.AsyncClient(base_url=base, headers=headers, transport=transport, timeout=timeout)
    except httpx.InvalidURL as error:
        raise UsageError(f"--server {url!r}: {error}") from None


class HttpClient:
    """Calls over HTTP, or over ASGI to an engine in this process: httpx does not tell these apart."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        patience: Callable[[], Patience],
        trouble: Callable[[str | None], None] = lambda words: None,
    ) -> None:
        """`patience` makes the waiting of one call; `trouble` is told why calls wait, and when they no longer do."""
        self._http = http
        self._patience = patience
        self._trouble = trouble
        self.native = False

    async def model(self, name: str | None = None) -> Model:
        """The model of that name, or the first; calls then suit the server. Raises UserError, ServerLost."""
        reply = await self._ask("GET", "/v1/models", None)
        listed = reply.body.get("data")
        models = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        if reply.status != 200 or not models:
            raise UserError(f"the server lists no models: {error_words(reply)}")
        chosen = next((each for each in models if name in (None, each.get("id"))), None)
        if chosen is None:
            names = ", ".join(str(each.get("id")) for each in models[:10])
            raise UsageError(f"the server has no model {name!r}, but {names}")
        self.native = chosen.get("owned_by") == OWNER
        longest = chosen.get("max_model_len")
        return Model(str(chosen.get("id")), longest if isinstance(longest, int) else None, self.native)

    async def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Make a call, in the batch tier where the server has one. Raises ServerLost."""
        if self.native and path.startswith("/v1/"):
            body = {**body, "service_tier": "flex"}
        return await self._ask("POST", path, body)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Reply:
        patience, faults = self._patience(), 0
        while True:
            at_least_s = 0.0
            try:
                reply, at_least_s = await self._once(method, path, body)
            except httpx.TransportError as error:
                why = f"the server cannot be reached ({error or type(error).__name__})"
            else:
                faults += reply.status == 500
                if reply.status not in _AWAY and not 0 < faults < _FAULT_TRIES:
                    self._trouble(None)
                    return reply
                why = f"the server answers {reply.status} ({error_words(reply)})"
            self._trouble(why)
            if not await patience.wait(at_least_s):
                raise ServerLost(f"{why}; what is done is kept: the same command goes on with the rest")

    async def _once(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[Reply, float]:
        """The answer, and for how many seconds it asks to be left alone."""
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"content-type": "application/json"}
        answer = await self._http.request(method, path, content=content, headers=headers)
        after = answer.headers.get("retry-after", "")
        retry_after_s = float(after) if after.isdigit() else 0.0
        try:
            parsed = orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            parsed = None
        if not isinstance(parsed, dict):
            status = answer.status_code if answer.status_code != 200 else 502
            parsed = {"error": {"message": "the answer is no JSON object", "code": None, "param": None}}
            return Reply(status, parsed, ""), retry_after_s
        request_id = answer.headers.get("x-request-id") or parsed.get("id")
        return Reply(answer.status_code, parsed, request_id if isinstance(request_id, str) else ""), retry_after_s


def error_words(reply: Reply) -> str:
    """The message of an error object, or the status."""
    error = reply.body.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else f"status {reply.status}"


class Bounded:
    """A client through which only so many calls go at once, and that counts what they cost."""

    def __init__(self, client: Client, at_once: int, called: Callable[[dict[str, Any]], None]) -> None:
        """`called` is told the usage of every call that went well."""
        self._client = client
        self._turns = asyncio.Semaphore(at_once)
        self._called = called

    async def post(self, path: str, body: dict[str, Any]) -> Reply:
        """As the client does it. Raises ServerLost."""
        async with self._turns:
            reply = await self._client.post(path, body)
        usage = reply.body.get("usage")
        if reply.status == 200 and isinstance(usage, dict):
            self._called(usage)
        return reply
