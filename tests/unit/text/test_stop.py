"""Stop strings in a text that comes in pieces."""

from __future__ import annotations

import time

import pytest

from andes_jax.text.stop import StopFinder, StopMatch


def test_a_match_ends_where_its_last_character_is() -> None:
    assert StopFinder(["stop"]).feed("please stop here") == StopMatch(end=11, length=4)


def test_a_match_may_begin_in_earlier_pieces() -> None:
    finder = StopFinder(["stop"])
    assert finder.feed("s") is None and finder.held == 1
    assert finder.feed("to") is None and finder.held == 3
    assert finder.feed("p!") == StopMatch(end=1, length=4)


def test_a_false_beginning_may_hold_a_true_one() -> None:
    finder = StopFinder(["aab"])
    assert finder.feed("aaa") is None and finder.held == 2
    assert finder.feed("b") == StopMatch(end=1, length=3)


def test_what_is_held_is_the_longest_possible_beginning() -> None:
    finder = StopFinder(["\n\nUser", "\nB"])
    assert finder.feed("text\n") is None and finder.held == 1
    assert finder.feed("\n") is None and finder.held == 2
    assert finder.feed("x") is None and finder.held == 0


def test_the_string_complete_first_wins_and_then_the_longest() -> None:
    assert StopFinder(["abcd", "bc"]).feed("abcd") == StopMatch(end=3, length=2)
    assert StopFinder(["bc", "abc"]).feed("abc") == StopMatch(end=3, length=3)
    assert StopFinder(["xyz", "b"]).feed("abxyz") == StopMatch(end=2, length=1)


def test_characters_that_mean_something_in_patterns_are_plain_here() -> None:
    for stop in ("]", "^", "-", "\\", "[a", ".*"):
        assert StopFinder([stop, "z"]).feed(f"ab{stop}") == StopMatch(end=2 + len(stop), length=len(stop))
        assert StopFinder([stop]).feed("plain") is None


def test_no_stop_strings_hold_nothing() -> None:
    finder = StopFinder([])
    assert finder.feed("text") is None and finder.held == 0


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        StopFinder(["ok", ""])


def test_a_hostile_stop_string_costs_linear_time() -> None:
    finder = StopFinder(["a" * 20_000 + "b"])
    started = time.process_time()
    for _ in range(2_000):
        assert finder.feed("a" * 50) is None
    # Quadratic matching would compare 10^9 characters.
    assert time.process_time() - started < 5
    assert finder.held == 20_000
