"""Calls to a server and what came of them, put together the way clients do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.text.tokenizer import Tokenizer
from tests.end_to_end.engines import golden

MODEL = "SmolLM2-135M-Instruct"
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
TOKENIZER: Tokenizer = open_checkpoint(None).tokenizer()
GREEDY = {"temperature": 0.0, "ignore_eos": True}


@dataclass
class Reply:
    """One choice, streamed or not."""

    text: str = ""
    finishes: list[str] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)  # chat: entries with bytes; completions: (token, logprob, offset)


@dataclass
class Replies:
    """A whole call."""

    choices: dict[int, Reply] = field(default_factory=lambda: defaultdict(Reply))
    usage: tuple[int, int, int] | None = None  # prompt, completion, total
    error: dict[str, Any] | None = None
    done: bool = False

    @property
    def text(self) -> str:
        """Of the only choice."""
        (reply,) = self.choices.values()
        return reply.text

    @property
    def texts(self) -> list[str]:
        return [self.choices[index].text for index in sorted(self.choices)]

    @property
    def finish(self) -> str:
        """Of every choice, each of which says it once."""
        (finish,) = {finish for reply in self.choices.values() for finish in reply.finishes}
        assert all(len(reply.finishes) == 1 for reply in self.choices.values())
        return finish

    def add(self, answer: dict[str, Any]) -> None:
        """A chunk, or a whole answer."""
        if "error" in answer:
            self.error = answer["error"]
            return
        for choice in answer["choices"]:
            reply = self.choices[choice["index"]]
            assert not reply.finishes, "news after the finish"
            part = choice.get("delta") or choice.get("message")
            reply.text += (part.get("content") or "") if part is not None else choice.get("text", "")
            reply.logprobs += _logprobs(choice.get("logprobs"))
            if choice["finish_reason"] is not None:
                reply.finishes.append(choice["finish_reason"])
        if answer.get("usage"):
            usage = answer["usage"]
            self.usage = (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"])


def _logprobs(shown: dict[str, Any] | None) -> list[Any]:
    if shown is None:
        return []
    if "content" in shown:
        return shown["content"]
    return list(zip(shown["tokens"], shown["token_logprobs"], shown["text_offset"], strict=True))


def gather(answers: Iterable[Any]) -> Replies:
    """What the official client gave: the chunks of a stream, or one whole answer."""
    replies = Replies(done=True)
    for answer in answers:
        replies.add(answer.model_dump())
    return replies


def read_events(lines: Iterable[str]) -> Replies:
    """What a stream's lines say."""
    replies = Replies()
    for line in lines:
        if line.startswith("data: "):
            assert not replies.done, "an event after [DONE]"
            replies.done = line == "data: [DONE]"
            if not replies.done:
                replies.add(orjson.loads(line[6:]))
    return replies


def body_of(case: dict[str, Any], **parameters: Any) -> tuple[str, dict[str, Any]]:
    """Path and body of the call that a golden case is the reply to."""
    body = {"max_tokens": len(case["output_ids"]), **GREEDY, **parameters}
    if case["chat"]:
        return CHAT, {"messages": [{"role": "user", "content": case["text"]}], **body}
    return COMPLETIONS, {"prompt": case["prompt_ids"], **body}


def ask(url: str, case: dict[str, Any], *, http2: bool = False, **parameters: Any) -> Replies:
    """Make a golden case's call, streamed, and read it to its end."""
    path, body = body_of(case, stream=True, **parameters)
    with httpx.Client(base_url=url, http1=not http2, http2=http2, timeout=120) as client:  # noqa: SIM117
        with client.stream("POST", path, json=body) as answer:
            if answer.status_code != 200:
                return Replies(error=orjson.loads(answer.read())["error"])
            return read_events(answer.iter_lines())


def expected(case: dict[str, Any], tokens: int | None = None) -> str:
    """The text of a golden reply, or of its first tokens."""
    return TOKENIZER.decode(case["output_ids"][:tokens])


def assert_golden(url: str, name: str = "english-sky", **parameters: Any) -> None:
    """The server answers as it should."""
    (case,) = [case for case in golden()["cases"] if case["name"] == name]
    replies = ask(url, case, **parameters)
    assert (replies.text, replies.finish, replies.done) == (expected(case), "length", True)
