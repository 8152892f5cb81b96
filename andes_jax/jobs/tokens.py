"""How many tokens texts have: counted by the server's own tokenizer, or estimated where a server does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from andes_jax.failure import UserError
from andes_jax.jobs.client import Client, error_words

AT_ONCE = 8  # calls, of the few that a server lets wait
LONGEST = 8192  # characters that are counted by one call: servers refuse texts that are much longer than their context
MESSAGE_TOKENS = 8  # that a chat template spends on a message, where it must be estimated
_UNKNOWN = (404, 405, 501)  # states of a route that a server does not have


class TokenCounter:
    """Counts by POST /tokenize, which vLLM and andes-jax have."""

    def __init__(self, client: Client) -> None:
        """Belongs to the event loop of its first call."""
        self._client = client
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.estimates = False  # whether the server does not count; known after the first call

    async def text(self, text: str, *, special: bool = False) -> int:
        """Tokens of a text, with those that begin every prompt where `special`. Raises UserError, ServerLost.

        A long text is counted in parts that end with lines or words, and has about as many tokens as these together.
        """
        total = 0
        for number, part in enumerate(parts_of(text)):
            first = special and number == 0
            total += await self._count({"prompt": part, "add_special_tokens": first}, part, 0)
        return total

    async def messages(self, messages: list[dict[str, Any]]) -> int:
        """Tokens of a conversation as the model is given it, up to where its reply begins.

        Raises UserError for messages that the model cannot be given, ServerLost.
        """
        whole = "".join(str(each.get("content") or "") for each in messages)
        return await self._count({"messages": messages}, whole, MESSAGE_TOKENS * (len(messages) + 1))

    async def _count(self, body: dict[str, Any], text: str, added: int) -> int:
        if not self.estimates:
            async with self._turns:
                reply = await self._client.post("/tokenize", body)
            count = reply.body.get("count")
            if reply.status == 200 and isinstance(count, int):
                return count
            if reply.status not in _UNKNOWN:
                raise UserError(f"the server does not count tokens: {error_words(reply)}")
            self.estimates = True
        return estimated(text) + added


def parts_of(text: str) -> Iterator[str]:
    """A text in parts of at most `LONGEST` characters, cut behind lines, or else blanks, where there are any."""
    start = 0
    while start < len(text):
        middle, end = start + LONGEST // 2, start + LONGEST
        if end < len(text):
            end = (text.rfind("\n", middle, end) + 1) or (text.rfind(" ", middle, end) + 1) or end
        yield text[start:end]
        start = end


def estimated(text: str) -> int:
    """Tokens that a text has at most with most tokenizers: one for 3 ASCII characters, 3 for 2 others."""
    ascii_count = sum(1 for each in text if each < "\x80")
    return -(-ascii_count // 3) + -(-3 * (len(text) - ascii_count) // 2)
