"""Calls of a summary, each answered once: what the journal holds is not asked again."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from andes_jax.batch_lines import CHAT
from andes_jax.failure import UserError
from andes_jax.jobs.client import Client, Reply, error_words
from andes_jax.jobs.journal import Journal
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.summaries.options import SummaryOptions


class CallFailed(UserError):
    """A call of one summary was answered with an error; `final` tells whether asking again would give the same."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(error_words(reply))
        error = reply.body.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        self.code = code if isinstance(code, str) else f"status_{reply.status}"
        self.final = reply.final


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, and what that cost."""

    text: str
    finish: str  # stop, or length where it was broken off
    prompt_tokens: int
    completion_tokens: int


class Asker:
    """Asks one model, and keeps every answer."""

    def __init__(self, client: Client, model: str, journal: Journal, keeper: Keeper) -> None:
        self._client = client
        self._model = model
        self._journal = journal
        self._keeper = keeper

    async def ask(self, messages: list[dict[str, str]], max_tokens: int, options: SummaryOptions) -> Answer:
        """The answer, from the journal or from the model. Raises CallFailed, ServerLost, JobError, OSError."""
        body: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": options.temperature,
            "seed": options.seed,
        }
        if options.frequency_penalty:
            body["frequency_penalty"] = options.frequency_penalty
        key = f"call:{hashlib.sha256(orjson.dumps(body)).hexdigest()}"
        known = self._journal.get(key)
        if known is not None:
            return Answer(**known)
        reply = await self._client.post(CHAT, body)
        answer = _answer(reply)
        if answer is None:
            raise CallFailed(reply)
        await self._keeper.keep(key, asdict(answer))
        return answer


def _answer(reply: Reply) -> Answer | None:
    """What a reply says; None where it is none."""
    choices: Any = reply.body.get("choices")
    usage: Any = reply.body.get("usage")
    try:
        choice = choices[0]
        text, finish = choice["message"]["content"] or "", choice["finish_reason"]
    except (TypeError, KeyError, IndexError):
        return None
    if reply.status != 200 or not isinstance(text, str):
        return None
    counts = usage if isinstance(usage, dict) else {}
    return Answer(text.strip(), str(finish), counts.get("prompt_tokens") or 0, counts.get("completion_tokens") or 0)
