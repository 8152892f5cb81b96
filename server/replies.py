"""What the replies to one call have in common, streamed or whole."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from andes_jax.events import Usage
from andes_jax.request import FinishReason
from server.admission import Work
from server.errors import ApiError, internal_error, shutting_down
from server.mailbox import Piece


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """The members at the top of every reply object of a call."""

    id: str
    model: str
    service_tier: str
    fingerprint: str
    created_s: int = field(default_factory=lambda: int(time.time()))

    def fields(self, kind: str) -> dict[str, Any]:
        """Of an object of a kind such as chat.completion."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created_s,
            "model": self.model,
            "service_tier": self.service_tier,
            "system_fingerprint": self.fingerprint,
        }


class UsageSum:
    """The tokens of a whole call. A prompt counts once, however many choices it has."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._usages: dict[int, Usage] = {}

    def add(self, piece: Piece) -> None:
        """Note the usage of a choice that ended."""
        if piece.usage is not None:
            self._usages[piece.index] = piece.usage

    def render(self) -> dict[str, Any]:
        """The `usage` object."""
        firsts = range(0, len(self._work.requests), self._work.choices)
        prompt_tokens = sum(len(prompt.ids) for prompt in self._work.prompts)
        completion_tokens = sum(usage.completion_tokens for usage in self._usages.values())
        cached_tokens = sum(self._usages[first].cached_tokens for first in firsts if first in self._usages)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        }
        if self._work.requests[0].qoe is not None:  # the requests of a call have one reader
            usage["andes"] = _experience([self._usages[index] for index in sorted(self._usages)])
        return usage


def _experience(usages: list[Usage]) -> dict[str, Any]:
    """How the reader fared: the mean score, the longest wait and all preemptions; each choice's own beside, if many."""
    scores = [usage.qoe for usage in usages if usage.qoe is not None]
    waits_s = [usage.waited_s for usage in usages if usage.waited_s is not None]
    experience: dict[str, Any] = {
        "qoe": round(sum(scores) / len(scores), 4) if scores else None,
        "waited_ms": round(max(waits_s) * 1000, 1) if waits_s else None,
        "preemptions": sum(usage.preemptions for usage in usages),
    }
    if len(usages) > 1:
        experience["choices"] = [_experience([usage]) for usage in usages]
    return experience


def fault_of(piece: Piece, *, draining: bool) -> ApiError | None:
    """The error that a piece ends its call with, or None. Only stop and length are ends of a reply."""
    if piece.finish in (None, FinishReason.STOP, FinishReason.LENGTH):
        return None
    if piece.finish is FinishReason.REFUSED:
        return ApiError(piece.message or "The request was refused.", status=503, code="engine_overloaded")
    if draining:
        return shutting_down()
    if piece.finish is FinishReason.CANCELLED:
        return ApiError("The request was cancelled by the server.", status=503, code="cancelled")
    return ApiError(piece.message, status=500, code="generation_failed") if piece.message else internal_error()
