"""andes_jax.engine.inbox: what was wanted comes once, in the last word's sense."""

from __future__ import annotations

from andes_jax.engine.inbox import Inbox
from andes_jax.engine.replies import Reply
from tests.fakes import letters, make_request


def reply(name: str) -> Reply:
    return Reply(make_request(name, (1,), 1), lambda events: None, letters())


def test_everything_is_taken_once():
    inbox = Inbox()
    assert not inbox
    first = reply("a")
    inbox.arrive([first])
    inbox.pause("a")
    inbox.cancel("b")
    assert inbox
    assert inbox.take() == ([first], [("a", True)], ["b"])
    assert not inbox
    assert inbox.take() == ([], [], [])


def test_the_last_word_on_a_pause_counts():
    inbox = Inbox()
    inbox.pause("a")
    inbox.resume("a")
    assert inbox.take().pauses == [("a", False)]


def test_what_was_wanted_of_an_earlier_request_of_the_name_is_void():
    inbox = Inbox()
    inbox.cancel("a")
    inbox.pause("a")
    inbox.arrive([reply("a")])
    news = inbox.take()
    assert not news.cancelled and not news.pauses
