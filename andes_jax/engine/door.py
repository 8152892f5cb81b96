"""Whether an engine's door is open to more requests."""

from __future__ import annotations

from collections.abc import Container, Sequence, Sized
from typing import Literal, Protocol

from andes_jax.request import Refusal, Request, Tier

State = Literal["starting", "ready", "draining", "failed", "stopped"]
SHUTTING_DOWN = "server is shutting down"


class Live(Sized, Container[str], Protocol):
    """The ids of the requests being served or waiting."""


def places_of_batches(most_live: int) -> int:
    """How many of the requests that can be live batch requests may make up: a quarter of the room is others' alone."""
    return most_live - -(-most_live // 4)


def check_open(state: State, live: Live, requests: Sequence[Request], most_live: int) -> None:
    """Raise the Refusal of requests that cannot all be taken now beside those that are live."""
    if state == "failed":
        raise Refusal("the engine has failed and serves nothing any more", "engine_failed")
    if state in ("draining", "stopped"):
        raise Refusal(SHUTTING_DOWN, "shutting_down")
    ids: set[str] = set()
    for request in requests:
        if request.id in live or request.id in ids:
            raise Refusal(f"request id {request.id!r} is in use", "duplicate_request", "id")
        ids.add(request.id)
    if len(requests) > most_live:
        raise Refusal(f"{len(requests)} requests are more than the {most_live} that can be live", "too_many_requests")
    room = most_live
    if requests and all(request.tier is Tier.BATCH for request in requests):
        room = max(places_of_batches(most_live), len(requests))  # with nobody else there, it may be all of it
    if len(live) + len(requests) > room:
        raise Refusal(f"{len(live)} requests are being served or wait already", "engine_overloaded")
