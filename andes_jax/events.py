"""What a request's owner is told: one batch of these per step and front end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from andes_jax.request import FinishReason


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural-log probabilities at one position before any sampling filter; always finite."""

    token_id: int
    logprob: float  # of token_id there
    top_ids: tuple[int, ...] = ()  # most likely first, as many as asked for
    top_logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a reply cost. The token that ended the reply counts as generated."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0  # prompt tokens whose keys and values were reused
    qoe: float | None = None  # quality of experience in [0, 1] (v2); None: nobody reads along, or the reader left early
    waited_s: float | None = None  # from arrival to the first step that worked on it; None: it never ran
    preemptions: int = 0  # times it lost its place to another


class TokenEvent(NamedTuple):
    """News of one request after one step. Text is whole characters, with nothing past a stop string."""

    request_id: str
    emitted_s: float  # engine clock
    text: str = ""  # may be empty: half a character, or held back because a stop string may begin in it
    token_ids: tuple[int, ...] = ()  # drawn in this step
    logprobs: tuple[TokenLogprobs, ...] = ()  # aligned with token_ids when asked for, else empty
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None  # once, with the first event, when asked for
    finish: FinishReason | None = None  # set in the request's last event and in no other
    message: str | None = None  # with FAILED and REFUSED: what went wrong, fit for the caller
    usage: Usage | None = None  # with finish


EventSink = Callable[[Sequence[TokenEvent]], None]
"""Takes a front end's events of one step; called on the engine's thread, must not block or raise."""
