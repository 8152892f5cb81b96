"""How long a job will take: the pace of a server or engine, from a few short calls, over the tokens of the job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from andes_jax.batch_lines import COMPLETIONS
from andes_jax.failure import UserError
from andes_jax.jobs.client import Client, error_words

_WORDS = 160  # of a probe's prompt: a few hundred tokens
_REPLY_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Pace:
    """What a server does with many calls at once; tokens per second."""

    prompt_tokens_per_s: float
    reply_tokens_per_s: float

    def seconds(self, prompt_tokens: int, reply_tokens: int) -> float:
        """How long that many tokens take."""
        return prompt_tokens / self.prompt_tokens_per_s + reply_tokens / self.reply_tokens_per_s


async def measure_pace(
    client: Client, model: str, at_once: int, *, clock: Callable[[], float] = time.perf_counter
) -> Pace:
    """Time `at_once` prompts with hardly a reply, then as many replies. Raises UserError, ServerLost."""
    prompts = [f"{number}. " + " ".join(f"word{number}x{n}" for n in range(_WORDS)) for number in range(at_once)]
    began_s = clock()
    read = await _tokens(client, model, prompts, 1)
    middle_s = clock()
    written = await _tokens(client, model, [str(number) for number in range(at_once)], _REPLY_TOKENS)
    ended_s = clock()
    return Pace(read[0] / max(middle_s - began_s, 1e-9), max(written[1], 1) / max(ended_s - middle_s, 1e-9))


async def _tokens(client: Client, model: str, prompts: list[str], max_tokens: int) -> tuple[int, int]:
    """Ask all at once; tokens of the prompts and of the replies."""
    body = {"model": model, "max_tokens": max_tokens, "temperature": 0}
    replies = await asyncio.gather(*(client.post(COMPLETIONS, {**body, "prompt": prompt}) for prompt in prompts))
    prompt_tokens = reply_tokens = 0
    for reply in replies:
        usage = reply.body.get("usage")
        if reply.status != 200 or not isinstance(usage, dict):
            raise UserError(f"the server's pace cannot be measured: {error_words(reply)}")
        prompt_tokens += usage.get("prompt_tokens") or 0
        reply_tokens += usage.get("completion_tokens") or 0
    return max(prompt_tokens, 1), reply_tokens
