from __future__ import annotations

import pytest

from andes_jax.request import Tier
from andes_jax.scheduling.policies.andes_paper import AndesPaper
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request
from tests.unit.scheduling.parts import at, columns

NOW = 10.0  # of requests that arrived at 0: with 0.2 s a token, 100 tokens are expected 10 s from now


def ratio(**values) -> float:
    those = columns([Tier.BATCH], **{"context": 4, "pace_s": 0.2, "slack_s": -1.0, **values})
    return float(AndesPaper().explain(those, at(NOW))["gain_per_token"][0])


@pytest.mark.parametrize(
    ("values", "gain"),
    [
        # Served, the 50 that it lacks come within the horizon; else half of what is expected is missing.
        ({"generated": 50}, 1.0 - (1 - 0.5**2)),
        # 20 and 50 more are 70 of 100; without them 80 are missing.
        ({"generated": 20}, 0.7**2 - (1 - 0.8**2)),
        # Nothing has come and the reader waits: what is served is all there is.
        ({"generated": 0}, 0.5**2),
        # Nothing has come but nothing will be due within the horizon.
        ({"generated": 0, "slack_s": 10.5}, 0.5**2 - 1.0),
        # A reader with something to read is served perfectly.
        ({"generated": 20, "slack_s": 0.5}, 1.0 - (1 - 0.8**2)),
        # Far ahead: all that is expected in ten seconds is there already.
        ({"generated": 150, "slack_s": 20.0}, 0.0),
        # Where nobody reads along, somebody is imagined.
        ({"generated": 50, "pace_s": 0.0, "slack_s": float("inf")}, 1.0 - (1 - 0.5**2)),
    ],
)
def test_the_gain_by_hand(values, gain):
    assert ratio(**values) == pytest.approx(gain / 5)


def test_the_gain_is_per_token_of_context_and_sorts_who_waits():
    those = columns([Tier.BATCH, Tier.REALTIME, Tier.BATCH], context=[9, 99, 4], pace_s=0.2, slack_s=-1.0)
    policy = AndesPaper()
    assert policy.explain(those, at(NOW))["gain_per_token"].tolist() == pytest.approx([0.025, 0.0025, 0.05])
    assert policy.admit_order(those, at(NOW)).tolist() == policy.keep_order(those, at(NOW)).tolist() == [2, 0, 1]
    assert policy.admit_order(those, at(NOW), 1).tolist() == [2]
    one = Sequence(make_request("a", [1], 1), 1)
    assert not policy.overtakes(one, one, 1e6) and policy.takes_pages(one, one)


def test_those_who_run_are_preempted_only_under_pressure_and_every_tenth_step():
    policy = AndesPaper()
    waiting = columns([Tier.BATCH], context=4, pace_s=0.2, slack_s=-1.0)
    running = columns([Tier.REALTIME] * 2, context=9, pace_s=0.2, slack_s=-1.0)
    pressed = {"step": 20, "used": 0.9}
    assert policy.victims(waiting, running, at(NOW, **pressed)).tolist() == [1, 0], "the latest of equals first"
    assert policy.victims(waiting, running, at(NOW, step=21, used=0.9)).tolist() == []
    assert policy.victims(waiting, running, at(NOW, step=20, used=0.89)).tolist() == []
    assert policy.victims(waiting, running, at(NOW, step=20, used=0.0, token_s=0.21)).tolist() == [1, 0]
    assert policy.victims(waiting, running, at(NOW, step=20, used=0.0, token_s=0.2)).tolist() == []
    unread = columns([Tier.REALTIME] * 2, context=9)
    assert policy.victims(waiting, unread, at(NOW, step=20, token_s=9.0)).tolist() == [], "nobody reads too fast"


def test_those_who_run_get_a_tenth_more():
    policy, moment = AndesPaper(), at(NOW, step=10, used=1.0)
    waiting = columns([Tier.BATCH], context=99, pace_s=0.2, slack_s=-1.0)
    running = columns([Tier.BATCH] * 3, context=[108, 109, 119], pace_s=0.2, slack_s=-1.0)
    assert policy.victims(waiting, running, moment).tolist() == [2], "1.1 / 110 is not less than 1 / 100"
