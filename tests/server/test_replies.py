"""What is said of a whole call."""

from __future__ import annotations

import pytest

from andes_jax.events import Usage
from andes_jax.request import FinishReason, Request, SamplingParams
from server.admission import Prompt, Work
from server.mailbox import Piece
from server.replies import ReplyHead, UsageSum, fault_of


def work(prompts: int, n: int) -> Work:
    requests = [Request(f"r:{index}", (1, 2, 3), SamplingParams(max_tokens=1)) for index in range(prompts * n)]
    return Work("r", tuple(Prompt((1, 2, 3), None) for _ in range(prompts)), tuple(requests))


def test_a_prompt_counts_once():
    usage = UsageSum(work(prompts=2, n=3))
    for index in range(6):
        # Later choices find what the first one computed; that is no reuse of an earlier call's work.
        usage.add(Piece(index, finish=FinishReason.STOP, usage=Usage(3, 10, cached_tokens=1 if index % 3 == 0 else 3)))
    assert usage.render() == {
        "prompt_tokens": 6,
        "completion_tokens": 60,
        "total_tokens": 66,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


@pytest.mark.parametrize(
    ("finish", "message", "draining", "status", "code"),
    [
        (FinishReason.FAILED, "a step failed", False, 500, "generation_failed"),
        (FinishReason.FAILED, None, False, 500, "internal_error"),
        (FinishReason.FAILED, "server is shutting down", True, 503, "shutting_down"),
        (FinishReason.CANCELLED, None, False, 503, "cancelled"),
        (FinishReason.CANCELLED, None, True, 503, "shutting_down"),
        (FinishReason.REFUSED, "no room", False, 503, "engine_overloaded"),
    ],
)
def test_ends_that_are_errors(finish, message, draining, status, code):
    error = fault_of(Piece(0, finish=finish, message=message), draining=draining)
    assert error is not None and (error.status, error.code) == (status, code) and error.message


@pytest.mark.parametrize("finish", [None, FinishReason.STOP, FinishReason.LENGTH])
def test_ends_that_are_not(finish):
    assert fault_of(Piece(0, finish=finish), draining=True) is None


def test_head():
    fields = ReplyHead("id", "m", "flex", "print", created_s=5).fields("kind")
    assert fields == {
        "id": "id",
        "object": "kind",
        "created": 5,
        "model": "m",
        "service_tier": "flex",
        "system_fingerprint": "print",
    }
