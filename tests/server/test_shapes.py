"""However events are cut into pieces, a reply says the same."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.events import TokenLogprobs, Usage
from andes_jax.request import FinishReason, Request, SamplingParams
from server.admission import Prompt, Work
from server.mailbox import Piece
from server.shapes import ChatShape, CompletionShape
from tests.server.parts import ByteTokenizer

TOKENIZER = ByteTokenizer()
WORK = Work("r", (Prompt((104, 105), "hi"),), (Request("r:0", (104, 105), SamplingParams(max_tokens=99)),))


def pieces_of(texts: list[str]) -> list[Piece]:
    pieces = [
        Piece(0, [text], list(text.encode()), [TokenLogprobs(byte, -0.5, (byte,), (-0.5,)) for byte in text.encode()])
        for text in texts
    ]
    pieces[0].prompt_logprobs = (None, TokenLogprobs(105, -1.0))
    pieces[-1].finish = FinishReason.LENGTH
    pieces[-1].usage = Usage(2, 9)
    return pieces


def streamed(shape, pieces: list[Piece]) -> list[dict]:
    return [orjson.loads(choice) for piece in pieces for choice in shape.chunk_choices(piece)]


TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=5), min_size=1, max_size=5)


@given(TEXTS, st.booleans())
def test_chat(texts, logprobs):
    def shape():
        return ChatShape(WORK, TOKENIZER, logprobs=logprobs)

    [whole] = shape().whole_choices([pieces_of(texts)])
    chunks = streamed(shape(), pieces_of(texts))
    contents = [chunk["delta"].get("content", "") for chunk in chunks]
    assert "".join(contents) == whole["message"]["content"] == "".join(texts)
    assert chunks[0]["delta"]["role"] == "assistant"
    assert chunks[-1]["finish_reason"] == whole["finish_reason"] == "length"
    assert all(chunk["delta"].get("content") for chunk in chunks[1:-1])  # nothing empty is sent
    if logprobs:
        entries = [entry for chunk in chunks if chunk["logprobs"] for entry in chunk["logprobs"]["content"]]
        assert entries == whole["logprobs"]["content"]
    else:
        assert whole["logprobs"] is None


@given(TEXTS, st.booleans(), st.booleans())
def test_completions(texts, logprobs, echo):
    def shape():
        return CompletionShape(WORK, TOKENIZER, logprobs=logprobs, echo=echo)

    [whole] = shape().whole_choices([pieces_of(texts)])
    chunks = streamed(shape(), pieces_of(texts))
    expected = ("hi" if echo else "") + "".join(texts)
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"] == expected
    if logprobs:
        for name, values in whole["logprobs"].items():
            assert [each for chunk in chunks if chunk["logprobs"] for each in chunk["logprobs"][name]] == values
        assert len(whole["logprobs"]["tokens"]) == len(expected.encode())


def test_tokens_without_text_are_sent_for_their_logprobs():
    half = Piece(0, [], [0xC3], [TokenLogprobs(0xC3, -0.5)])
    assert len(ChatShape(WORK, TOKENIZER, logprobs=True).chunk_choices(half)) == 2
    assert len(ChatShape(WORK, TOKENIZER, logprobs=False).chunk_choices(half)) == 1  # the role alone
    assert CompletionShape(WORK, TOKENIZER, logprobs=False, echo=False).chunk_choices(half) == []


def test_the_echo_of_tokens_is_their_text():
    work = Work("r", (Prompt((0xC3, 0xA9), None),), WORK.requests)
    [choice] = CompletionShape(work, TOKENIZER, logprobs=False, echo=True).whole_choices([pieces_of(["!"])])
    assert choice["text"] == "é!"
