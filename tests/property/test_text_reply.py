"""However a reply is cut into tokens and steps, its text is that of the whole."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from andes_jax.text.reply import ReplyText
from andes_jax.text.stop import StopFinder
from andes_jax.text.token_table import TokenTable

# Bytes around every boundary of UTF-8: ASCII, continuations, heads of 2 to 4 bytes, overlong, surrogate, out of range.
EDGES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF]
edge_bytes = st.lists(st.sampled_from(EDGES), max_size=4).map(bytes)
some_text = st.text(st.sampled_from("ab \n\u00e9한\U0001f600"), max_size=6).map(str.encode)
pieces = st.lists(edge_bytes | some_text | st.binary(max_size=3), min_size=1, max_size=8)
stops = st.lists(st.text(st.sampled_from("ab \n\u00e9한\U0001f600\ufffdA"), min_size=1, max_size=4), max_size=4)


def cut_at_first_stop(text: str, stop_strings: list[str]) -> tuple[str, int | None]:
    """The plainest reading: walk the text and stop at the first character that completes a stop string."""
    for end in range(len(text) + 1):
        done = [stop for stop in stop_strings if text[:end].endswith(stop)]
        if done:
            return text[: end - max(map(len, done))], end
    return text, None


@st.composite
def replies(draw: st.DrawFn) -> tuple[TokenTable, list[list[int]]]:
    """A vocabulary and the ids of a reply, step by step."""
    vocabulary = draw(pieces)
    special = draw(st.sets(st.integers(0, len(vocabulary) - 1), max_size=2))
    table = TokenTable(vocabulary, special, strip_leading_space=draw(st.booleans()))
    step = st.lists(st.integers(0, len(vocabulary) - 1), max_size=4)
    return table, draw(st.lists(step, max_size=8))


@given(replies(), stops, st.booleans())
def test_streamed_text_is_the_whole_text_up_to_the_first_stop(
    reply_ids: tuple[TokenTable, list[list[int]]], stop_strings: list[str], skip_special: bool
) -> None:
    table, steps = reply_ids
    reply = ReplyText(table, tuple(stop_strings), skip_special)
    streamed, used = "", 0
    for ids in steps:
        piece = reply.push(ids)
        streamed += piece.text
        used += piece.used
        assert piece.stopped == reply.stopped
        if piece.stopped:
            break
        assert piece.used == len(ids)
    streamed += reply.finish()
    whole = [token_id for ids in steps for token_id in ids]
    expected, end = cut_at_first_stop(table.decode(whole, skip_special=skip_special), stop_strings)
    assert streamed == expected
    assert reply.stopped == (end is not None)
    assert reply.push(whole) == ("", True, 0) if reply.stopped else used == len(whole)


@given(replies(), stops)
def test_the_ids_that_count_are_those_up_to_the_one_that_completed_the_stop(
    reply_ids: tuple[TokenTable, list[list[int]]], stop_strings: list[str]
) -> None:
    table, steps = reply_ids
    whole = [token_id for ids in steps for token_id in ids]
    at_once = ReplyText(table, tuple(stop_strings)).push(whole)
    one_by_one = ReplyText(table, tuple(stop_strings))
    used = 0
    for token_id in whole:
        piece = one_by_one.push([token_id])
        used += piece.used
        if piece.stopped:
            break
    assert (at_once.used, at_once.stopped) == (used, one_by_one.stopped)


@given(replies())
@example((TokenTable([b"\xed\xa0", b"\x80"]), [[0], [1]]))
@example((TokenTable([b"\xed\xbf", b"a"]), [[0], [1]]))
def test_text_never_waits_longer_than_one_character(reply_ids: tuple[TokenTable, list[list[int]]]) -> None:
    table, steps = reply_ids
    reply = ReplyText(table)
    ids: list[int] = []
    streamed = ""
    for step in steps:
        streamed += reply.push(step).text
        ids += step
        so_far = table.decode(ids)
        assert so_far.startswith(streamed)
        assert len(so_far) - len(streamed) <= 1


def test_every_short_string_of_edge_bytes_decodes_as_the_whole_does() -> None:
    table = TokenTable([bytes([byte]) for byte in range(256)])
    for size in (1, 2, 3):
        for data in product(EDGES, repeat=size):
            reply = ReplyText(table)
            streamed = "".join([reply.push([byte]).text for byte in data]) + reply.finish()
            assert streamed == bytes(data).decode("utf-8", "replace")


@given(st.lists(st.text("ab", max_size=5), max_size=12), st.lists(st.text("ab", min_size=1, max_size=6), max_size=4))
def test_matches_and_held_text_depend_on_the_text_alone(cut: list[str], stop_strings: list[str]) -> None:
    finder = StopFinder(stop_strings)
    text = ""
    for piece in cut:
        match = finder.feed(piece)
        expected, end = cut_at_first_stop(text + piece, stop_strings)
        if match is not None:
            assert end == len(text) + match.end
            assert len(expected) == len(text) + match.end - match.length
            return
        text += piece
        assert end is None
        beginnings = [size for stop in stop_strings for size in range(1, len(stop)) if text.endswith(stop[:size])]
        assert finder.held == max(beginnings, default=0)
