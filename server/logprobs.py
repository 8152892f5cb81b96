"""Log-probabilities in OpenAI's two shapes. Every number is finite, so that the reply is JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from andes_jax.events import TokenLogprobs
from andes_jax.request import Request
from server.context import TokenTable
from server.text_offsets import TextOffsets, offsets_in

FLOOR = -9999.0  # stands for minus infinity


def finite(logprob: float) -> float:
    """The number, or FLOOR for minus infinity, what is below it, and no number at all."""
    return logprob if logprob >= FLOOR else FLOOR


def shown(entries: Iterable[TokenLogprobs], request: Request, table: TokenTable) -> list[TokenLogprobs]:
    """The entries of tokens that the reply's text has: not those that ended it, nor special ones if it skips them."""
    stop_ids = request.sampling.stop_ids
    skip = request.skip_special_tokens
    return [
        entry for entry in entries if entry.token_id not in stop_ids and not (skip and table.is_special(entry.token_id))
    ]


class ChatLogprobs:
    """Entries with the token's text and its bytes, from which a reader can join half characters."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table

    def render(self, entries: Sequence[TokenLogprobs]) -> dict[str, Any]:
        """The `logprobs` object of a choice or delta."""
        return {"content": [self._entry(entry) for entry in entries], "refusal": None}

    def _entry(self, entry: TokenLogprobs) -> dict[str, Any]:
        pairs = zip(entry.top_ids, entry.top_logprobs, strict=True)
        return {
            **self._token(entry.token_id, entry.logprob),
            "top_logprobs": [self._token(token_id, logprob) for token_id, logprob in pairs],
        }

    def _token(self, token_id: int, logprob: float) -> dict[str, Any]:
        data = self._table.bytes_of(token_id)
        return {"token": data.decode(errors="replace"), "logprob": finite(logprob), "bytes": list(data)}


class CompletionLogprobs:
    """Parallel lists over the tokens of one reply, and where in its text each begins."""

    def __init__(self, table: TokenTable, *, skip_special: bool, echoed: str = "") -> None:
        """Whether the reply's text leaves special tokens out, and the text that comes before it."""
        self._table = table
        self._reply = TextOffsets(table, skip_special=skip_special, start=len(echoed))

    def prompt(self, ids: Sequence[int], entries: Sequence[TokenLogprobs | None], text: str | None) -> dict[str, Any]:
        """The echoed prompt's, which came as a text (None: as tokens); a token that nothing precedes has null."""
        if text is None:
            shown = TextOffsets(self._table, skip_special=True)
            offsets = [shown.next(token_id) for token_id in ids]
        else:
            offsets = offsets_in(text, ids, self._table)
        return self._lists(ids, entries, offsets)

    def render(self, entries: Sequence[TokenLogprobs]) -> dict[str, Any]:
        """The reply's next tokens'."""
        ids = [entry.token_id for entry in entries]
        return self._lists(ids, entries, [self._reply.next(token_id) for token_id in ids])

    def _lists(self, ids: Sequence[int], entries: Sequence[TokenLogprobs | None], offsets: list[int]) -> dict[str, Any]:
        return {
            "tokens": [self._text(token_id) for token_id in ids],
            "token_logprobs": [None if entry is None else finite(entry.logprob) for entry in entries],
            "top_logprobs": [None if entry is None else self._top(entry) for entry in entries],
            "text_offset": offsets,
        }

    def _top(self, entry: TokenLogprobs) -> dict[str, float]:
        top: dict[str, float] = {}
        for token_id, logprob in zip(entry.top_ids, entry.top_logprobs, strict=True):
            top.setdefault(self._text(token_id), finite(logprob))  # the likeliest of tokens with the same text
        return top

    def _text(self, token_id: int) -> str:
        data = self._table.bytes_of(token_id)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
