"""Readers as the server sees them are the scheduler's."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.prediction.lengths import LengthHistory
from andes_jax.request import QoeTarget, Request, SamplingParams, Tier
from andes_jax.scheduling.ledger import Ledger
from server.reader import ReaderClock

gaps = st.lists(st.floats(0, 3), min_size=1, max_size=20)


def request(target: QoeTarget | None, arrived_s: float = 5.0) -> Request:
    return Request("r", (1, 2), SamplingParams(max_tokens=99), qoe=target, arrived_s=arrived_s)


@given(gaps, st.floats(0.05, 3), st.floats(0.5, 50))
def test_token_by_token_it_is_the_scheduler_s_clock(gaps_s, first_s, speed):
    asked = request(QoeTarget(first_s, speed))
    ledger, clock = Ledger(LengthHistory()), ReaderClock(asked)
    sequence = SimpleNamespace(request=asked, tier=Tier.REALTIME, queued_s=5.0, order=0, prompt_length=2, row=None)
    ledger.enter(sequence)
    now_s = 5.0
    assert clock.slack_s(now_s) == pytest.approx(ledger.slack_s(sequence, now_s))
    for gap_s in gaps_s:
        now_s += gap_s
        ledger.deliver([sequence.row], now_s)
        clock.sent(1, now_s)
        assert clock.slack_s(now_s) == pytest.approx(ledger.slack_s(sequence, now_s))


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 9)), max_size=20))
def test_tokens_sent_together_are_tokens_sent_at_once(sends):
    one, many = (ReaderClock(request(QoeTarget(1.0, 5.0))) for _ in range(2))
    now_s = 5.0
    for gap_s, tokens in sends:
        now_s += gap_s
        many.sent(tokens, now_s)
        for _ in range(tokens):
            one.sent(1, now_s)
        assert many.slack_s(now_s) == pytest.approx(one.slack_s(now_s))


def test_nobody_needs_nothing():
    clock = ReaderClock(request(None))
    clock.sent(3, 6.0)
    assert clock.slack_s(1e9) == math.inf
