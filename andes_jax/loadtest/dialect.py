"""What a server takes beyond the plain OpenAI API, found out by asking it before the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from andes_jax.failure import UserError
from andes_jax.loadtest.connections import Address, Connections
from andes_jax.loadtest.http_response import ResponseError
from andes_jax.loadtest.prompts import Prompts
from andes_jax.loadtest.reply import StreamedReply
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrival import Arrival

OWNER = "andes-jax"  # as andes-jax says in its list of models
ANSWER_TIMEOUT_S = 60.0  # for a short request before the run
_SERVICE_TIERS = {Tier.REALTIME: "priority", Tier.BATCH: "flex"}  # a stream in tier streaming goes by andes.tier

Feature = Literal["token_ids", "ignore_eos", "continuous_usage_stats", "andes", "andes.tier"]
_LOSSES: dict[Feature, str] = {
    "token_ids": "prompts are words, whose number of tokens is not exact",
    "ignore_eos": "replies may be shorter than asked for",
    "continuous_usage_stats": "tokens per event are worked out from each reply's total",
    "andes": "the server does not know what readers expect",
    "andes.tier": "streams of tier streaming are realtime to the server",
}
# In what order they are given up when the server does not say which of them it minds.
_OPTIONAL: tuple[Feature, ...] = ("continuous_usage_stats", "andes.tier", "andes", "ignore_eos", "token_ids")
_PROBE = Arrival(0.0, prompt_tokens=4, output_tokens=2, tier=Tier.STREAMING, qoe=QoeTarget(1.0, 5.0))


class ServerError(UserError):
    """A server that cannot be measured."""


@dataclass(frozen=True)
class Endpoint:
    """A server, a model of it, and how it wants to be spoken to."""

    address: Address
    model: str
    api_key: str | None = field(default=None, repr=False)
    native: bool = False  # it is andes-jax
    longest: int | None = None  # tokens of prompt and reply together; None: the server does not say
    features: frozenset[Feature] = frozenset()
    lost: tuple[tuple[Feature, str], ...] = ()  # features that were tried in vain, and the server's words

    def request(self, arrival: Arrival, prompts: Prompts, index: int) -> bytes:
        """The HTTP request for one arrival."""
        has = self.features.__contains__
        options = {"include_usage": True}  # the tokens of the whole reply
        if has("continuous_usage_stats"):
            options["continuous_usage_stats"] = True
        make: Callable[[int, int], Any] = prompts.ids if has("token_ids") else prompts.text
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": make(index, arrival.prompt_tokens),
            "max_tokens": arrival.output_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": options,
        }
        if has("ignore_eos"):
            body["ignore_eos"] = True
        if self.native and arrival.tier in _SERVICE_TIERS:
            body["service_tier"] = _SERVICE_TIERS[arrival.tier]
        if andes := self._andes(arrival):
            body["andes"] = andes
        return http_request(self.address, "POST", "/v1/completions", self.api_key, orjson.dumps(body))

    def _andes(self, arrival: Arrival) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "andes" in self.features and arrival.qoe is not None:
            found["expected_ttft_ms"] = arrival.qoe.first_token_s * 1000
            found["expected_tokens_per_s"] = arrival.qoe.tokens_per_s
        if "andes.tier" in self.features and arrival.tier is Tier.STREAMING:
            found["tier"] = "streaming"
        return found

    @property
    def losses(self) -> list[str]:
        """What follows from what the server does not take, in words."""
        return [f"{_LOSSES[name]} (to {name} the server says: {words})" for name, words in self.lost]


def http_request(address: Address, method: str, path: str, api_key: str | None, body: bytes = b"") -> bytes:
    """A whole HTTP/1.1 request."""
    lines = [
        f"{method} {address.path}{path} HTTP/1.1",
        f"host: {address.authority}",
        "user-agent: andes-jax-bench",
        "accept: application/json, text/event-stream",
        "accept-encoding: identity",
    ]
    if api_key:
        lines.append(f"authorization: Bearer {api_key}")
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


async def discover(
    connections: Connections, prompts: Prompts, *, model: str | None, api_key: str | None, andes: bool | None
) -> Endpoint:
    """Ask a server for its models, and by short requests for what it takes.

    Args:
        model: its name; None: the first that the server lists.
        andes: send what only andes-jax takes; None: if the server says that it is one.

    Raises:
        ServerError: there is no server, or it answers no request.
    """
    listed = await _models(connections, api_key)
    found = next((each for each in listed if each.get("id") == model), listed[0] if listed and not model else {})
    name = model or found.get("id")
    if not name:
        raise ServerError("the server lists no models; name one with --model")
    native = found.get("owned_by") == OWNER if andes is None else andes
    longest = found.get("max_model_len")
    longest = longest if isinstance(longest, int) else None
    wanted: set[Feature] = {"token_ids", "ignore_eos", "continuous_usage_stats"}
    if native:
        wanted |= {"andes", "andes.tier"}
    lost: list[tuple[Feature, str]] = []
    while True:
        features: frozenset[Feature] = frozenset(wanted)
        endpoint = Endpoint(connections.address, str(name), api_key, native, longest, features, tuple(lost))
        reply = await ask(connections, endpoint.request(_PROBE, prompts, index=-1))
        if reply.error is None:
            return endpoint
        culprit = _culprit(reply, wanted)
        if culprit is None:
            raise ServerError(f"the server answers no completions: {reply.error}")
        wanted.remove(culprit)
        lost.append((culprit, reply.error))


def _culprit(reply: StreamedReply, wanted: set[Feature]) -> Feature | None:
    """The feature to give up next; None when it is not about a feature."""
    if reply.status not in (400, 422) or not wanted:
        return None
    words = f"{reply.param or ''} {reply.error or ''}"
    for name in _OPTIONAL:
        if name in wanted and (name in words or (name == "token_ids" and reply.param == "prompt")):
            return name
    return next(name for name in _OPTIONAL if name in wanted)


async def _models(connections: Connections, api_key: str | None) -> list[dict[str, Any]]:
    """What GET /v1/models lists; nothing where a server has no such path."""
    reply = await ask(connections, http_request(connections.address, "GET", "/v1/models", api_key))
    if reply.status in (401, 403):
        raise ServerError(f"{reply.error}; give the key with --api-key")
    listed = (reply.whole() or {}).get("data")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


async def ask(connections: Connections, request: bytes) -> StreamedReply:
    """One exchange outside the measurement. Raises ServerError where no response comes."""
    reply = StreamedReply()
    address = connections.address
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await connections.exchange(request, reply)
    except TimeoutError:
        raise ServerError(f"{address.host}:{address.port} gives no answer in {ANSWER_TIMEOUT_S:g} s") from None
    except (OSError, ResponseError) as error:
        raise ServerError(f"no server answers at {address.host}:{address.port}: {error}") from error
    reply.conclude()
    return reply
