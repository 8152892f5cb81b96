"""What a caller asks for, as immutable values. Nothing here knows how it will be served."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Tier(IntEnum):
    """How urgently a reader waits; a smaller value is served first."""

    REALTIME = 0
    STREAMING = 1
    BATCH = 2


class FinishReason(StrEnum):
    """Why a request ended. Every request ends with exactly one of these."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn for one choice of one request.

    A draw depends only on (seed, choice, position) and the row's own logits, never on the batch around it.
    """

    max_tokens: int  # tokens to generate at most, >= 0
    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0 keeps the whole vocabulary
    top_p: float = 1.0  # in (0, 1]
    min_p: float = 0.0  # in [0, 1], relative to the most likely token
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0  # over prompt and output, > 0
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token id, added to its logit)
    seed: int = 0  # always set: a caller without one gets a random one at the front end
    choice: int = 0  # index of the reply among n
    stop_ids: tuple[int, ...] = ()  # ids that end the reply; empty under ignore_eos
    min_tokens: int = 0  # stop ids cannot be drawn before so many tokens
    top_logprobs: int | None = None  # None: no logprobs; 0: of the drawn token alone; at most 20
    prompt_logprobs: bool = False  # log-probabilities of the prompt's own tokens too (echo)

    @property
    def penalised(self) -> bool:
        """Whether drawing needs counts of earlier tokens."""
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0)


@dataclass(frozen=True, slots=True)
class QoeTarget:
    """When a reader expects text: seconds to the first token, then reading speed in tokens per second."""

    first_token_s: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """One reply to generate. A call with n choices submits n of these, which share their prompt's pages."""

    id: str  # unique among live requests
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams
    tier: Tier = Tier.STREAMING
    qoe: QoeTarget | None = None  # None: nobody reads along
    arrived_s: float = 0.0  # on the engine's clock
    stop: tuple[str, ...] = ()  # stop strings, cut from the text
    session: str | None = None
    skip_special_tokens: bool = True


class Refusal(Exception):
    """A request that will not be served: the reason in words, a code for programs, and the parameter at fault."""

    def __init__(self, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code  # for example context_length_exceeded, engine_overloaded, shutting_down
        self.param = param
