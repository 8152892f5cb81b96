"""Unread events merge."""

from __future__ import annotations

from andes_jax.events import TokenEvent, TokenLogprobs, Usage
from andes_jax.request import FinishReason
from server.mailbox import LOGPROB_BYTES, Held, Mailbox, size_of


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


def test_first_text_and_the_end_are_urgent():
    mailbox = Mailbox(0)
    mailbox.put(TokenEvent("r", 1.0, "", (1,)))
    mailbox.take()
    assert mailbox.urgent  # half a character is not text yet
    mailbox.put(TokenEvent("r", 1.0, "a", (1,)))
    assert mailbox.urgent
    mailbox.take()
    mailbox.put(TokenEvent("r", 1.0, "b", (1,)))
    assert not mailbox.urgent
    mailbox.put(TokenEvent("r", 1.0, finish=FinishReason.STOP))
    assert mailbox.urgent


def test_what_is_held_is_as_old_as_its_first_event():
    held = Held()
    assert held.since_s is None and held.emitted_s is None
    held.add(3, urgent=False, emitted_s=0.0, now_s=1.0)
    held.add(4, urgent=True, emitted_s=2.0, now_s=3.0)
    held.add(5, urgent=False, emitted_s=4.0, now_s=5.0)
    assert (held.bytes, held.since_s, held.emitted_s, held.urgent) == (12, 1.0, 0.0, True)


def test_sizes_are_of_what_is_sent():
    assert size_of(TokenEvent("r", 1.0, "abc", (1,))) == 3
    assert size_of(TokenEvent("r", 1.0, "한국", (1,))) == 6
    scored = TokenEvent("r", 1.0, "a", (1,), (TokenLogprobs(1, -0.1, (1, 2), (-0.1, -2.0)),))
    assert size_of(scored) == 1 + 3 * LOGPROB_BYTES
