"""How many tokens of text a model can be given at once, beside instructions and its reply."""

from __future__ import annotations

from dataclasses import dataclass

from andes_jax.failure import UserError
from andes_jax.jobs.summaries.prompts import Prompts, Stage
from andes_jax.jobs.tokens import TokenCounter

_MARGIN = 16  # tokens that pieces may have more when they are put together
_LEAST_TEXT = 192  # tokens of text that a prompt must hold for notes to shrink it
_STAGES: tuple[Stage, ...] = ("whole", "notes", "merge", "final")


@dataclass(frozen=True, slots=True)
class Budget:
    """Token counts for the prompts of one language and set of options."""

    text: int  # that every stage can be given at once
    notes: int  # that notes may have, so that at least three fit into one prompt
    summary: int  # that a summary may have

    def reply(self, stage: Stage) -> int:
        """The longest reply of a stage."""
        return self.summary if stage in ("whole", "final") else self.notes


async def budget_of(prompts: Prompts, context_tokens: int, counter: TokenCounter) -> Budget:
    """Raises UserError where a context of that many tokens leaves too little for the text."""
    instructions = [await counter.messages(prompts.messages(stage, "")) for stage in _STAGES]
    longest = max(prompts.max_tokens(stage) for stage in _STAGES)
    text = context_tokens - max(instructions) - longest - _MARGIN
    if text < _LEAST_TEXT:
        raise UserError(
            f"the model's context of {context_tokens} tokens holds {max(instructions)} of instructions, {longest} of a "
            f"reply and then fewer than {_LEAST_TEXT} of text; ask for fewer --words or a shorter --question"
        )
    text = min(text, prompts.options.chunk_tokens or text)
    return Budget(text, min(prompts.max_tokens("notes"), max(1, text // 3 - 2)), prompts.max_tokens("final"))
