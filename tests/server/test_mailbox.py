"""Unread events merge."""

from __future__ import annotations

from andes_jax.events import TokenEvent, TokenLogprobs, Usage
from andes_jax.request import FinishReason
from server.mailbox import Mailbox


def test_everything_unread_becomes_one_piece():
    mailbox = Mailbox(3)
    assert mailbox.take() is None
    first, second = TokenLogprobs(1, -0.1), TokenLogprobs(2, -0.2)
    mailbox.put(TokenEvent("r", 1.0, "a", (1,), (first,), prompt_logprobs=(None,)))
    mailbox.put(TokenEvent("r", 2.0, "", (2,), (second,)))
    mailbox.put(TokenEvent("r", 3.0, "é", (), finish=FinishReason.FAILED, message="why", usage=Usage(1, 2)))
    piece = mailbox.take()
    assert piece is not None
    assert (piece.index, piece.text, piece.tokens) == (3, "aé", 2)
    assert piece.logprobs == [first, second] and piece.prompt_logprobs == (None,)
    assert (piece.finish, piece.message, piece.usage) == (FinishReason.FAILED, "why", Usage(1, 2))
    assert mailbox.finish is FinishReason.FAILED
    assert mailbox.take() is None


def test_a_piece_once_taken_does_not_grow():
    mailbox = Mailbox(0)
    mailbox.put(TokenEvent("r", 1.0, "a", (1,)))
    piece = mailbox.take()
    mailbox.put(TokenEvent("r", 2.0, "b", (1,)))
    assert piece is not None and piece.text == "a"
