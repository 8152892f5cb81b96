"""Log-probabilities are finite and aligned with the text."""

from __future__ import annotations

import math

import orjson
import pytest

from andes_jax.events import TokenLogprobs
from andes_jax.request import Request, SamplingParams
from andes_jax.text.token_table import TokenTable
from server.logprobs import FLOOR, ChatLogprobs, CompletionLogprobs, finite, shown

PIECES = [b"a", "é".encode()[:1], "é".encode()[1:], b" ", "界".encode(), b"<eos>", b"a"]
TABLE = TokenTable(PIECES, special_ids=[5])


def request(*, skip: bool = True, stop_ids: tuple[int, ...] = ()) -> Request:
    return Request("r", (0,), SamplingParams(max_tokens=9, stop_ids=stop_ids), skip_special_tokens=skip)


@pytest.mark.parametrize("value", [-math.inf, math.nan, -1e300, -10_000.0])
def test_what_is_not_finite_becomes_the_floor(value):
    assert finite(value) == FLOOR
    entry = TokenLogprobs(0, value, (0, 1), (-0.1, value))
    for rendered in (ChatLogprobs(TABLE).render([entry]), CompletionLogprobs(TABLE, skip_special=True).render([entry])):
        assert b"null" not in orjson.dumps(rendered).replace(b'"refusal":null', b"")


@pytest.mark.parametrize("value", [0.0, -0.5, FLOOR])
def test_what_is_finite_stays(value):
    assert finite(value) == value


def test_tokens_without_text_are_left_out():
    entries = [TokenLogprobs(each, -0.1) for each in (0, 5, 4)]
    assert [entry.token_id for entry in shown(entries, request(), TABLE)] == [0, 4]
    assert [entry.token_id for entry in shown(entries, request(skip=False), TABLE)] == [0, 5, 4]
    assert [entry.token_id for entry in shown(entries, request(stop_ids=(4,)), TABLE)] == [0]


def test_offsets_count_characters():
    lists = CompletionLogprobs(TABLE, skip_special=True, echoed=TABLE.decode([5, 0, 1]))
    prompt = lists.prompt([5, 0, 1], [None, TokenLogprobs(0, -1.0), TokenLogprobs(1, -1.0)], None)
    reply = lists.render([TokenLogprobs(each, -1.0) for each in (2, 3, 4, 0)])
    assert prompt["tokens"] == ["<eos>", "a", "bytes:\\xc3"] and reply["tokens"] == ["bytes:\\xa9", " ", "界", "a"]
    assert prompt["text_offset"] == [0, 0, 1] and reply["text_offset"] == [2, 3, 4, 5]
    assert prompt["token_logprobs"] == [None, -1.0, -1.0] and prompt["top_logprobs"][0] is None


def test_of_tokens_with_the_same_text_the_likeliest_stays():
    entry = TokenLogprobs(0, -0.1, (0, 6, 3), (-0.1, -2.0, -3.0))
    rendered = CompletionLogprobs(TABLE, skip_special=True).render([entry])
    assert rendered["top_logprobs"] == [{"a": -0.1, " ": -3.0}]
    both = ChatLogprobs(TABLE).render([TokenLogprobs(0, -0.1, (0, 6), (-0.1, -2.0))])["content"][0]["top_logprobs"]
    assert [each["logprob"] for each in both] == [-0.1, -2.0]
