"""The embedded model behind a real engine, and the golden replies it must give."""

from __future__ import annotations

import gzip
import json
import queue
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from andes_jax.build import BuiltEngine, build_engine
from andes_jax.config import load_config
from andes_jax.events import TokenEvent, TokenLogprobs, Usage
from andes_jax.request import FinishReason, Request, SamplingParams

GOLDEN = Path(__file__).parents[1] / "golden" / "data" / "greedy.json.gz"
REPLY_LIMIT_S = 300.0


@dataclass
class Finished:
    """A whole reply, put together from its events."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: Sequence[TokenLogprobs | None] | None = None
    finish: FinishReason | None = None
    message: str | None = None
    usage: Usage | None = None


@cache
def golden() -> dict[str, Any]:
    """Greedy replies of transformers in float32: `cases` and `long`."""
    return json.loads(gzip.decompress(GOLDEN.read_bytes()))


def build(**settings: Any) -> BuiltEngine:
    """An engine over the embedded model in float32; settings are given as section__field."""
    flags = {"model.dtype": "float32"} | {name.replace("__", "."): value for name, value in settings.items()}
    folder = Path(tempfile.gettempdir(), "andes-jax-test-programs")  # one for all tests: each program compiles once
    return build_engine(load_config(flags={"engine.compile_cache_dir": str(folder), **flags}, environ={}))


def greedy(id: str, prompt_ids: Iterable[int], max_tokens: int = 64, **changes: Any) -> Request:
    """A request for the likeliest tokens that goes on past the end token."""
    sampling = SamplingParams(max_tokens=max_tokens, **{"temperature": 0.0, **changes})
    return Request(id, tuple(prompt_ids), sampling)


def run(built: BuiltEngine, requests: Sequence[Request]) -> list[Finished]:
    """Run requests at the same time and wait for all of them."""
    inbox: queue.SimpleQueue[Sequence[TokenEvent]] = queue.SimpleQueue()
    replies = {request.id: Finished() for request in requests}
    for request in requests:
        built.engine.submit(request, inbox.put)
    running = len(requests)
    while running:
        for event in inbox.get(timeout=REPLY_LIMIT_S):
            running -= add(replies[event.request_id], event)
    return [replies[request.id] for request in requests]


def add(reply: Finished, event: TokenEvent) -> bool:
    """Add an event to its reply; whether it was the last."""
    assert reply.finish is None, "an event after the last one"
    reply.text += event.text
    reply.ids += event.token_ids
    reply.logprobs += event.logprobs
    if event.prompt_logprobs is not None:
        reply.prompt_logprobs = event.prompt_logprobs
    reply.finish, reply.message, reply.usage = event.finish, event.message, event.usage
    return event.finish is not None
