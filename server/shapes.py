"""How pieces become the choices of a reply: one shape for chat, one for completions, each streamed and whole.

A stream's chunks are put together from bytes that stay the same for the whole stream. A whole reply is joined from
the very pieces that a stream would have sent, so both say the same.
"""

from __future__ import annotations

from typing import Any, Protocol

import orjson

from andes_jax.events import TokenLogprobs
from server.admission import Work
from server.context import Tokenizer
from server.logprobs import ChatLogprobs, CompletionLogprobs, shown
from server.mailbox import Piece

NULL = b"null"


class Shape(Protocol):
    """The choices of one call's reply. Stateful: give it every piece exactly once, in order."""

    kind: str  # of a whole reply
    chunk_kind: str  # of a stream's chunk

    def chunk_choices(self, piece: Piece) -> list[bytes]:
        """The `choices` member's single element for each chunk that the piece becomes; may be none."""
        ...

    def whole_choices(self, pieces: list[list[Piece]]) -> list[dict[str, Any]]:
        """The `choices` member of a whole reply, from the pieces of each index."""
        ...


class ChatShape:
    """chat.completion: a message, streamed as deltas of which the first, sent with the first news, names the role."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def __init__(self, work: Work, tokenizer: Tokenizer, *, logprobs: bool) -> None:
        self._work = work
        self._table = tokenizer.table
        self._logprobs = ChatLogprobs(tokenizer.table) if logprobs else None
        self._begun: set[int] = set()

    def _entries(self, piece: Piece) -> list[TokenLogprobs]:
        return shown(piece.logprobs, self._work.requests[piece.index], self._table)

    def chunk_choices(self, piece: Piece) -> list[bytes]:
        index = b"%d" % piece.index
        choices = []
        if piece.index not in self._begun:
            self._begun.add(piece.index)
            choices.append(_delta(index, b'{"role":"assistant","content":"","refusal":null}'))
        text = piece.text
        entries = self._entries(piece) if self._logprobs else []
        if text or entries:
            rendered = orjson.dumps(self._logprobs.render(entries)) if self._logprobs else NULL
            choices.append(_delta(index, b'{"content":%b}' % orjson.dumps(text), rendered))
        if piece.finish is not None:
            choices.append(_delta(index, b"{}", finish=b'"%b"' % piece.finish.encode()))
        return choices

    def whole_choices(self, pieces: list[list[Piece]]) -> list[dict[str, Any]]:
        return [
            {
                "index": index,
                "message": {"role": "assistant", "content": "".join(each.text for each in own), "refusal": None},
                "logprobs": self._logprobs.render([entry for each in own for entry in self._entries(each)])
                if self._logprobs
                else None,
                "finish_reason": _finish(own),
            }
            for index, own in enumerate(pieces)
        ]


class CompletionShape:
    """text_completion: a text, which begins with the prompt under echo."""

    kind = "text_completion"
    chunk_kind = "text_completion"

    def __init__(self, work: Work, tokenizer: Tokenizer, *, logprobs: bool, echo: bool) -> None:
        self._work = work
        self._tokenizer = tokenizer
        self._echo = echo
        self._begun: set[int] = set()
        self._logprobs = [self._lists(index) for index in range(len(work.requests))] if logprobs else None

    def _lists(self, index: int) -> CompletionLogprobs:
        echoed = self._prompt_text(index) if self._echo else ""
        skip = self._work.requests[index].skip_special_tokens
        return CompletionLogprobs(self._tokenizer.table, skip_special=skip, echoed=echoed)

    def _prompt_text(self, index: int) -> str:
        prompt = self._work.prompts[index // self._work.choices]
        return self._tokenizer.decode(prompt.ids) if prompt.text is None else prompt.text

    def _parts(self, piece: Piece) -> list[tuple[str, dict[str, Any] | None]]:
        """Text with its log-probabilities: of the echoed prompt, then of the reply; those without either left out."""
        parts: list[tuple[str, dict[str, Any] | None]] = []
        index = piece.index
        if index not in self._begun:
            self._begun.add(index)
            if self._echo:
                rendered = None
                if self._logprobs and piece.prompt_logprobs is not None:
                    ids = self._work.requests[index].prompt_ids
                    given = self._work.prompts[index // self._work.choices].text
                    rendered = self._logprobs[index].prompt(ids, piece.prompt_logprobs, given)
                parts.append((self._prompt_text(index), rendered))
        text = piece.text
        entries = shown(piece.logprobs, self._work.requests[index], self._tokenizer.table) if self._logprobs else []
        if text or entries:
            parts.append((text, self._logprobs[index].render(entries) if self._logprobs else None))
        return parts

    def chunk_choices(self, piece: Piece) -> list[bytes]:
        index = b"%d" % piece.index
        choices = [
            _text(index, orjson.dumps(text), NULL if logprobs is None else orjson.dumps(logprobs))
            for text, logprobs in self._parts(piece)
        ]
        if piece.finish is not None:
            choices.append(_text(index, b'""', finish=b'"%b"' % piece.finish.encode()))
        return choices

    def whole_choices(self, pieces: list[list[Piece]]) -> list[dict[str, Any]]:
        choices = []
        for index, own in enumerate(pieces):
            parts = [part for piece in own for part in self._parts(piece)]
            lists: dict[str, Any] | None = None
            if self._logprobs:
                lists = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
                for _, logprobs in parts:
                    for name, values in (logprobs or {}).items():
                        lists[name].extend(values)
            text = "".join(text for text, _ in parts)
            choices.append({"index": index, "text": text, "logprobs": lists, "finish_reason": _finish(own)})
        return choices


def _delta(index: bytes, delta: bytes, logprobs: bytes = NULL, finish: bytes = NULL) -> bytes:
    return b'{"index":%b,"delta":%b,"logprobs":%b,"finish_reason":%b}' % (index, delta, logprobs, finish)


def _text(index: bytes, text: bytes, logprobs: bytes = NULL, finish: bytes = NULL) -> bytes:
    return b'{"index":%b,"text":%b,"logprobs":%b,"finish_reason":%b}' % (index, text, logprobs, finish)


def _finish(pieces: list[Piece]) -> str | None:
    return next((piece.finish.value for piece in pieces if piece.finish is not None), None)
