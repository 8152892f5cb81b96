"""How many tokens texts have: counted by the server's own tokenizer, or estimated where a server does not count."""

from __future__ import annotations

import asyncio
from typing import Any

from andes_jax.failure import UserError
from andes_jax.jobs.client import Client, error_words

AT_ONCE = 8  # calls, of the few that a server lets wait
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
        """Tokens of a text, with those that begin every prompt where `special`. Raises UserError, ServerLost."""
        if not text:
            return 0
        return await self._count({"prompt": text, "add_special_tokens": special}, text, 0)

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


def estimated(text: str) -> int:
    """Tokens that a text has at most with most tokenizers: one for 3 ASCII characters, 3 for 2 others."""
    ascii_count = sum(1 for each in text if each < "\x80")
    return -(-ascii_count // 3) + -(-3 * (len(text) - ascii_count) // 2)
