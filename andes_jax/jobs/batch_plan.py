"""What a run over a batch file would do: its calls and their tokens, counted without asking for any reply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andes_jax.batch_lines import BadLine, BatchLine
from andes_jax.failure import UserError
from andes_jax.jobs.batch import known_row
from andes_jax.jobs.batch_file import read_lines
from andes_jax.jobs.journal import Journal
from andes_jax.jobs.pool import for_each
from andes_jax.jobs.tokens import AT_ONCE, TokenCounter


@dataclass(slots=True)
class BatchPlan:
    """Counts of lines and tokens."""

    lines: int = 0
    bad: int = 0  # lines that no call can be made of, or whose prompt cannot be counted
    done: int = 0  # lines that earlier runs have answered
    calls: int = 0  # that are left
    prompt_tokens: int = 0  # of these calls
    reply_tokens: int = 0  # that they may ask for at most


async def plan_batch(
    path: Path, journal: Journal | None, counter: TokenCounter, context_tokens: int | None
) -> BatchPlan:
    """Read and count every line that `journal` has no answer to. Raises OSError, ServerLost.

    A call without a limit of its own may reply to the end of a context of `context_tokens`; 0 where that is not known.
    """
    plan = BatchPlan()

    async def count(line: BatchLine | BadLine) -> None:
        plan.lines += 1
        if isinstance(line, BadLine):
            plan.bad += 1
        elif journal is not None and known_row(journal, line) is not None:
            plan.done += 1
        else:
            try:
                prompts = await _prompts(counter, line.body)
            except UserError:
                plan.bad += 1
                return
            plan.calls += 1
            plan.prompt_tokens += sum(prompts)
            plan.reply_tokens += sum(_reply_limit(line.body, each, context_tokens) for each in prompts)

    await for_each(read_lines(path), count, AT_ONCE)
    return plan


async def _prompts(counter: TokenCounter, body: dict[str, Any]) -> list[int]:
    """Tokens of each prompt of a call."""
    messages, prompt = body.get("messages"), body.get("prompt")
    if isinstance(messages, list):
        return [await counter.messages(messages)]
    if isinstance(prompt, str):
        return [await counter.text(prompt, special=True)]
    if isinstance(prompt, list) and all(isinstance(each, int) for each in prompt):
        return [len(prompt)]
    if isinstance(prompt, list):
        return [len(each) if isinstance(each, list) else await counter.text(str(each), special=True) for each in prompt]
    return [0]


def _reply_limit(body: dict[str, Any], prompt_tokens: int, context_tokens: int | None) -> int:
    """Tokens that all choices of a call have at most together; a call with wrong numbers gets none, as it will."""
    choices, limit = body.get("n", 1), body.get("max_completion_tokens", body.get("max_tokens"))
    left = max(0, (context_tokens or 0) - prompt_tokens)
    if limit is None:
        limit = left
    if not isinstance(limit, int) or not isinstance(choices, int):
        return 0
    return max(0, choices) * max(0, min(limit, left) if context_tokens else limit)
