"""When text leaves: bounds that hold whatever is known, and what more of something may not change."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from server.chunking import AHEAD_S, BUSY_LAG_S, LEAST_HOLD_S, MANY_STREAMS, ChunkLimits, Situation, chunk_bytes, decide

NOW = 1000.0
LIMITS = ChunkLimits()

amounts = st.integers(0, 10**7)
seconds = st.floats(0, 10)
situations = st.builds(
    Situation,
    held_bytes=st.integers(0, 20_000),
    held_since_s=st.floats(NOW - 1, NOW),
    last_sent_s=st.floats(NOW - 1, NOW) | st.just(-math.inf),
    urgent=st.booleans(),
    slack_s=st.floats(-100, 100) | st.just(math.inf),
    unsent_bytes=amounts,
    round_trip_s=st.none() | st.floats(1e-6, 2),
    delivery_bytes_per_s=st.none() | st.floats(1, 1e10),
    window_bytes=st.none() | st.integers(-(10**6), 10**7),
    streams=st.integers(1, 1000),
    lag_s=seconds,
)
limits = st.builds(ChunkLimits, chunk_bytes=st.integers(256, 16384), interval_s=st.floats(0, 1), adaptive=st.booleans())


def at_ease(**changes) -> Situation:
    """A token on an idle link, for a reader who has nothing left to read, on a loop with time."""
    known = {
        "held_bytes": 5,
        "held_since_s": NOW,
        "last_sent_s": NOW,
        "urgent": False,
        "slack_s": 0.1,
        "unsent_bytes": 0,
        "round_trip_s": 0.04,
        "delivery_bytes_per_s": 1e6,
        "window_bytes": 60_000,
        "streams": 1,
        "lag_s": 0.0002,
    }
    return Situation(**known | changes)


def until(situation: Situation, limits: ChunkLimits = LIMITS) -> float:
    hold = decide(situation, NOW, limits)
    return NOW if hold is None else hold.until_s


@given(situations, limits)
def test_nothing_waits_longer_than_the_interval(situation, chosen):
    hold = decide(situation, NOW, chosen)
    if hold is not None:
        assert NOW < hold.until_s <= situation.held_since_s + chosen.interval_s
        assert situation.held_bytes < hold.until_bytes <= max(chosen.chunk_bytes, 16384)


@given(situations, limits)
def test_first_text_and_ends_never_wait(situation, chosen):
    assert decide(situation._replace(urgent=True), NOW, chosen) is None


@given(situations)
def test_nothing_waits_without_adaptation(situation):
    assert decide(situation, NOW, ChunkLimits(adaptive=False)) is None


@given(situations)
def test_on_a_free_link_text_leaves_at_once(situation):
    """Waiting needs unsent bytes, a closed window, a busy loop, or a reader who is far ahead."""
    assume(situation.slack_s <= AHEAD_S)
    free = situation._replace(unsent_bytes=0, window_bytes=None, lag_s=min(situation.lag_s, BUSY_LAG_S))
    assert decide(free, NOW, LIMITS) is None


@given(situations, amounts)
def test_more_unsent_bytes_never_let_text_leave_earlier(situation, more):
    assert until(situation._replace(unsent_bytes=situation.unsent_bytes + more)) >= until(situation)


@given(situations, st.floats(0, 1e9))
def test_a_faster_link_never_makes_text_wait_longer(situation, more):
    assume(situation.delivery_bytes_per_s is not None)
    faster = situation._replace(delivery_bytes_per_s=situation.delivery_bytes_per_s + more)
    assert until(faster) <= until(situation)


@given(situations, seconds)
def test_a_reader_further_ahead_never_gets_text_earlier(situation, more):
    assert until(situation._replace(slack_s=situation.slack_s + more)) >= until(situation)


@given(situations, seconds)
def test_a_busier_loop_never_sends_earlier(situation, more):
    assert until(situation._replace(lag_s=situation.lag_s + more)) >= until(situation)


@given(situations, seconds)
def test_a_longer_silence_never_makes_text_wait_longer(situation, more):
    assert until(situation._replace(last_sent_s=situation.last_sent_s - more)) <= until(situation)


@given(situations, amounts)
def test_more_text_never_waits_longer(situation, more):
    assert until(situation._replace(held_bytes=situation.held_bytes + more)) <= until(situation)


@given(limits, st.none() | st.floats(1e-6, 2), st.floats(1, 10), st.integers(1, 1000), st.integers(0, 100))
def test_chunks_keep_their_bounds(chosen, round_trip_s, slower, streams, more):
    size = chunk_bytes(chosen, round_trip_s, streams)
    assert chosen.chunk_bytes // 2 <= size <= max(chosen.chunk_bytes, 16384)
    assert chunk_bytes(chosen, round_trip_s, streams + more) <= size
    if round_trip_s is not None:
        assert chunk_bytes(chosen, round_trip_s * slower, streams) <= size


@pytest.mark.parametrize(
    ("round_trip_s", "streams", "size"),
    [
        (None, 1, 4096),
        (0.3, 1, 4096),
        (0.04, MANY_STREAMS, 4096),
        (0.002, 1, 8192),
        (0.0005, 1, 16384),
        (0.0005, MANY_STREAMS + 1, 2048),
        (0.3, MANY_STREAMS + 1, 2048),
    ],
)
def test_chunks_follow_the_link_and_the_crowd(round_trip_s, streams, size):
    assert chunk_bytes(LIMITS, round_trip_s, streams) == size


@pytest.mark.parametrize(
    ("changes", "waits_s"),
    [
        ({}, 0.0),
        ({"unsent_bytes": 10_000}, 0.01),  # until those have left, at 1 MB/s
        ({"unsent_bytes": 10_000, "delivery_bytes_per_s": 125_000.0}, 0.05),  # at 1 Mbit/s they take longer
        ({"unsent_bytes": 10, "delivery_bytes_per_s": None}, 0.05),
        ({"unsent_bytes": 10}, 0.0),  # gone before a timer is
        ({"window_bytes": 0}, 0.05),
        ({"slack_s": 10.0}, 0.05),
        ({"slack_s": 10.0, "last_sent_s": NOW - 0.02}, 0.03),
        ({"slack_s": 10.0, "last_sent_s": NOW - 0.06}, 0.0),  # there was silence
        ({"slack_s": 10.0, "last_sent_s": -math.inf}, 0.0),
        ({"slack_s": 10.0, "round_trip_s": 0.0002}, 0.01),  # a packet more costs little
        ({"slack_s": 10.0, "round_trip_s": None}, 0.01),
        ({"slack_s": 10.0, "round_trip_s": 0.0002, "lag_s": 0.003}, 0.03),
        ({"slack_s": 10.0, "round_trip_s": 0.0002, "lag_s": 0.02}, 0.05),
        ({"slack_s": math.inf}, 0.05),
        ({"lag_s": 0.02}, 0.0),
        ({"lag_s": 0.02, "streams": 60}, 0.05),
        ({"slack_s": 10.0, "held_since_s": NOW - 0.03}, 0.02),
        ({"slack_s": 10.0, "held_since_s": NOW - 0.06}, 0.0),
        ({"slack_s": 10.0, "held_bytes": 5000}, 0.0),
    ],
)
def test_how_long_text_waits(changes, waits_s):
    assert until(at_ease(**changes)) - NOW == pytest.approx(waits_s, abs=LEAST_HOLD_S / 100)
