"""Turns on a connection."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from priority import BadWeightError, DeadlockError, DuplicateStreamError, MissingStreamError

from server.hypercorn_repairs.schedule import StreamSchedule


def schedule(**weights: int) -> StreamSchedule:
    made = StreamSchedule()
    for name, weight in weights.items():
        made.insert_stream(int(name[1:]), weight=weight)
        made.unblock(int(name[1:]))
    return made


def serve(turns: StreamSchedule, total: int, frame: int = 100) -> Counter[int]:
    sent: Counter[int] = Counter()
    while sum(sent.values()) < total:
        stream_id = next(turns)
        turns.charge(stream_id, frame)
        sent[stream_id] += frame
    return sent


@given(st.integers(1, 256), st.integers(1, 256))
def test_shares_follow_weights(one, two):
    sent = serve(schedule(s1=one, s3=two), 100_000)
    assert abs(sent[1] / one - sent[3] / two) <= 100 * (1 / one + 1 / two)


def test_small_frames_are_not_paid_like_large_ones():
    turns = schedule(s1=16, s3=16)
    sent: Counter[int] = Counter()
    for _ in range(1000):
        stream_id = next(turns)
        size = 10 if stream_id == 1 else 1000
        turns.charge(stream_id, size)
        sent[stream_id] += size
    assert sent[1] == pytest.approx(sent[3], abs=1010)


@pytest.mark.parametrize("weight", [1, 64, 256])
def test_a_stream_that_was_quiet_does_not_catch_up(weight):
    turns = schedule(s1=16, s3=weight)
    turns.block(3)
    serve(turns, 1_000_000)
    turns.unblock(3)
    sent = serve(turns, 10_000 * (16 + weight) // 16)
    assert sent[1] == pytest.approx(10_000, abs=200)


def test_blocked_and_removed_streams_get_no_turn():
    turns = schedule(s1=16, s3=16, s5=16)
    turns.block(1)
    turns.remove_stream(3)
    assert set(serve(turns, 1000)) == {5}
    turns.block(5)
    with pytest.raises(DeadlockError):
        next(turns)
    turns.charge(3, 10)
    turns.unblock(1)
    turns.block(1)
    turns.unblock(1)
    turns.unblock(1)
    assert next(turns) == 1
    turns.block(1)
    turns.charge(1, 5)
    with pytest.raises(DeadlockError):  # no turn is left over from having been unblocked twice
        next(turns)


def test_weights_change():
    turns = schedule(s1=16, s3=16)
    turns.reprioritize(3, weight=64)
    sent = serve(turns, 50_000)
    assert sent[3] / sent[1] == pytest.approx(4, rel=0.05)


def test_errors_are_those_of_the_tree():
    turns = schedule(s1=16)
    with pytest.raises(DuplicateStreamError):
        turns.insert_stream(1)
    for act in (turns.block, turns.unblock, turns.remove_stream, turns.reprioritize):
        with pytest.raises(MissingStreamError):
            act(9)
    for weight in (0, 257):
        with pytest.raises(BadWeightError):
            turns.reprioritize(1, weight=weight)


def test_a_weight_that_was_assigned_is_no_longer_the_peer_s():
    turns = schedule(s1=16, s3=16)
    turns.reprioritize(1, weight=64)
    assert turns.asked(1) == 64 and turns.asked(3) is None and turns.asked(5) is None
    assert turns.assign(1, 32) and not turns.assign(5, 32)
    turns.reprioritize(1, weight=200)
    assert turns.asked(1) == 200
    sent = serve(turns, 100_000)
    assert sent[1] / sent[3] == pytest.approx(2, abs=0.01)
    with pytest.raises(BadWeightError):
        turns.assign(1, 0)
