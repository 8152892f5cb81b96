"""Bounds the scheduler keeps, fixed for the life of an engine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from andes_jax.request import Refusal, Request

MOST_STEP_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """Raises ValueError for bounds that could not work together."""

    max_sequences: int  # slots: sequences running at once
    max_model_len: int  # tokens of prompt and output of one sequence
    step_tokens: int  # tokens computed in one step at most
    prefill_chunk: int  # tokens of one slice at most
    page_tokens: int  # positions of one page
    max_preempt: int = 3  # times a request loses its pages or slot to others
    preempt_share: float = 0.25  # of all time, at most, goes into moving replies of one tier out of each other's way
    warmup_steps: int = 50  # steps until learnt step times steer
    realtime_aim_s: float = 0.2  # to a realtime reply's first token: steps are kept short enough for that

    def __post_init__(self) -> None:
        for name in ("max_sequences", "max_model_len", "prefill_chunk", "page_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.step_tokens < self.max_sequences:
            raise ValueError(
                f"step_tokens ({self.step_tokens}) must be at least max_sequences ({self.max_sequences}), "
                "so that every running sequence gets its token in every step"
            )
        for name in ("max_preempt", "warmup_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if not 0 <= self.preempt_share <= 1:
            raise ValueError(f"preempt_share must be from 0 to 1, got {self.preempt_share:g}")
        if not 0 < self.realtime_aim_s < math.inf:
            raise ValueError(f"realtime_aim_s must be a number above 0, got {self.realtime_aim_s:g}")
        if self.step_tokens > MOST_STEP_TOKENS:
            raise ValueError(f"step_tokens must be at most {MOST_STEP_TOKENS}, got {self.step_tokens}")

    def refusal(self, request: Request, pool_tokens: int) -> Refusal | None:
        """Why the request can never be served with a cache of so many tokens, with the numbers; None when it can."""
        prompt = len(request.prompt_ids)
        wanted = request.sampling.max_tokens
        if prompt == 0:
            return Refusal("the prompt is empty: at least one token is needed", "invalid_value", "prompt")
        longest = self.max_model_len
        what = "the model's context length is"
        if prompt + wanted <= longest and max(prompt + wanted - 1, prompt) > pool_tokens:
            longest, what = pool_tokens, "the cache holds at most"
        elif prompt + wanted <= longest:
            return None
        message = (
            f"{what} {longest} tokens, but the request needs {prompt + wanted}: "
            f"{prompt} in the prompt and {wanted} to generate"
        )
        return Refusal(message, "context_length_exceeded", "prompt" if prompt >= longest else "max_tokens")
