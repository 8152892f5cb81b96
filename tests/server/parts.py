"""A byte tokenizer, a small chat template, and a whole context around the fake engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from andes_jax.text.chat import ChatTemplate
from andes_jax.text.token_table import TokenTable
from server.context import ServerContext, ServerSettings
from tests.server.fake_engine import EOS, FakeEngine, Script, letters

MODEL = "fake/bytes"
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
COMPILED = ChatTemplate(TEMPLATE, "", "")


class ByteTokenizer:
    """A token a byte, and one that ends replies."""

    eos_ids = (EOS,)
    vocab_size = 257

    def __init__(self) -> None:
        self.table = TokenTable([*(bytes([each]) for each in range(256)), b"<eos>"], special_ids=[EOS])

    def encode(self, text: str, *, add_special: bool, parse_special: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        return self.table.decode(ids, skip_special=skip_special)


def says(text: str | bytes) -> Script:
    """A script that says the text and ends."""
    data = text.encode() if isinstance(text, str) else text
    return lambda request: (*data, EOS)


def mk_context(
    script: Script = letters, *, gap_s: float = 0.0, max_waiting: int = 10_000, **settings: Any
) -> ServerContext:
    """A context around a new fake engine; keywords are ServerSettings."""
    tokenizer = ByteTokenizer()
    settings.setdefault("port", 0)
    return ServerContext(
        engine=FakeEngine(tokenizer.table, script, gap_s=gap_s, max_waiting=max_waiting),
        tokenizer=tokenizer,
        chat_template=COMPILED,
        model_id=MODEL,
        settings=ServerSettings(**settings),
        created_s=1_700_000_000,
    )


def chat(content: str = "hi", **parameters: Any) -> dict[str, Any]:
    """The body of a chat call."""
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **parameters}


def completion(prompt: Any = "hi", **parameters: Any) -> dict[str, Any]:
    """The body of a completions call."""
    return {"model": MODEL, "prompt": prompt, **parameters}


def events_of(stream: bytes) -> list[Any]:
    """The events of a whole stream, parsed; asserts that it is one, ended by [DONE]."""
    blocks = [block for block in stream.split(b"\n\n") if block and not block.startswith(b":")]
    assert all(block.startswith(b"data: ") for block in blocks), stream
    assert blocks[-1] == b"data: [DONE]", stream[-200:]
    assert stream.endswith(b"\n\n")
    return [orjson.loads(block[6:]) for block in blocks[:-1]]


def chat_text(events: list[Any], index: int = 0) -> str:
    """The concatenated deltas of one choice."""
    choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content", "") for choice in choices)
