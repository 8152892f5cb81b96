"""Tiers and readers: their spelling and their shares."""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.failure import UsageError
from andes_jax.request import Tier
from andes_jax.workload.readers import PAPER_READERS, Readers, parse_readers, parse_tiers


def test_shares_of_tiers_add_up_to_one():
    mix = dict(parse_tiers("realtime=0.7,streaming=0.2,batch=0.1"))
    assert mix == pytest.approx({Tier.REALTIME: 0.7, Tier.STREAMING: 0.2, Tier.BATCH: 0.1})
    assert parse_tiers("realtime=3, batch=1") == ((Tier.REALTIME, 0.75), (Tier.BATCH, 0.25))
    assert parse_tiers("batch") == ((Tier.BATCH, 1.0),)


@pytest.mark.parametrize(
    "words", ["", "realtime=x", "fast=1", "realtime=-1", "realtime=nan", "batch=0", "batch=1,batch=1"]
)
def test_wrong_shares_are_errors(words):
    with pytest.raises(UsageError, match="tiers"):
        parse_tiers(words)


def test_readers_of_the_paper_by_their_share():
    speeds = Readers("paper").speeds(20_000, np.random.default_rng(1))
    assert sum(share for share, _ in PAPER_READERS) == pytest.approx(1, abs=1e-3)
    for share, seconds in PAPER_READERS:
        assert np.isclose(speeds, 1 / seconds).mean() == pytest.approx(share, abs=0.015)


def test_fast_and_equal_readers():
    fast = Readers("fast").speeds(2000, np.random.default_rng(1))
    assert 20 <= fast.min() < 21 and 49 < fast.max() < 50 and fast.mean() == pytest.approx(35, abs=1)
    assert set(parse_readers("7.5").speeds(3, np.random.default_rng(1))) == {7.5}


def test_spelling():
    assert parse_readers("paper", 0.5) == Readers("paper", first_token_s=0.5)
    assert parse_readers("None").kind == "none"
    assert parse_readers("12") == Readers("same", 12.0)


@pytest.mark.parametrize("words", ["", "slow", "0", "-3", "nan", "inf"])
def test_wrong_readers_are_errors(words):
    with pytest.raises(UsageError):
        parse_readers(words)


def test_errors_speak_of_what_the_user_gave():
    with pytest.raises(UsageError, match="readers read at more than 0 tokens per second, not at -3"):
        parse_readers("-3")
    with pytest.raises(UsageError, match="first token after more than 0 seconds, not -1"):
        parse_readers("paper", -1.0)
